"""The stages that a sample passes on its way from storage to a batch; private to Seneca."""
