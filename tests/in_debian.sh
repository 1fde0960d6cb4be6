#!/bin/sh
# in_debian.sh SUITE [ARGUMENT ...]
#
# The tests with the Python of a release of Debian, and the newest torch that pip finds for it:
#
#   debootstrap --> .debian-SUITE/          a system of its own, which later runs use again
#   git ls-files --> .debian-SUITE/seneca/  what is tracked or new here, built there
#   pytest ARGUMENT ...                     in namespaces of its own: no mount and no process is left
#
# It needs root, debootstrap, and the net. In the environment:
#   MIRROR    the archive of packages; by default debootstrap's
#   TORCH, TORCHVISION   what pip installs; by default the newest: "torch", "torchvision"
#   FOLDERS   folders of this machine that are seen there too: those in which pip finds wheels
set -eu

[ $# -gt 0 ] || { echo "usage: $0 SUITE [ARGUMENT ...]" >&2; exit 2; }
command -v debootstrap > /dev/null || { echo "$0: no debootstrap here; apt-get install debootstrap" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "$0: only root may make a root folder" >&2; exit 1; }
suite=$1
shift
root=$PWD/.debian-$suite

packages=python3,python3-dev,python3-venv,gcc,g++,make,git,ca-certificates,procps,iproute2
packages=$packages,libjpeg-dev,libpng-dev,libwebp-dev,libdeflate-dev,libsndfile1-dev,zlib1g-dev,redis-server,openssl,nginx-light
if [ ! -e "$root/.made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${MIRROR:+"$MIRROR"}
    touch "$root/.made"
fi

rm -rf "$root/seneca"
mkdir -p "$root/seneca"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar -C "$root/seneca" --extract
for file in /etc/hosts /etc/resolv.conf /etc/pip.conf /etc/xdg/pip /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || { mkdir -p "$root${file%/*}"; cp -RT "$file" "$root$file"; }
done

exec unshare --mount --pid --fork sh -eu -s -- "$root" "$@" << 'INSIDE'
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root" # there / is a mount point then, as in a container
for folder in ${FOLDERS:-}; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} $(env | grep '^PIP_') \
    TORCH="${TORCH:-torch}" TORCHVISION="${TORCHVISION:-torchvision}" sh -eu -s -- "$@" << 'THERE'
cd /seneca
python3 -m venv /venv
. /venv/bin/activate
pip install --quiet "$TORCH" numpy
pip install --quiet --group dev
pip install --quiet --no-deps "$TORCHVISION" # it asks for Pillow, and pillow-simd is there
pip install --quiet --no-build-isolation --no-deps --editable .
python -c 'import sys, torch; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}")'
python -m pytest --dist worksteal -n 2 -q "$@"
THERE
INSIDE
