"""Back end one: threads of this process prepare batches of pictures in the native core."""
