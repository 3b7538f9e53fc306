#!/bin/sh
# Install sealer from the files of a release: check the signature of SHA256SUMS,
# the checksum of the archive for this system, then copy the program, its man
# pages and its completion scripts below a prefix. Works without a network from
# a directory with the files, or fetches them from a URL.
#
#   sh install.sh --key release.pub [--from DIR|URL] [--prefix /usr/local]
set -eu

usage() {
  echo "usage: install.sh --key PUBLIC-KEY [--from DIR|URL] [--prefix DIR]" >&2
  echo "  --key     the public key, PEM, that you trust; --unsigned to go without" >&2
  echo "  --from    where the files of the release are; the directory of this script otherwise" >&2
  echo "  --prefix  where to install; /usr/local otherwise" >&2
  exit 2
}
fail() {
  echo "install.sh: $*" >&2
  exit 1
}

key='' from=$(dirname "$0") prefix=/usr/local unsigned=''
while [ $# -gt 0 ]; do
  case "$1" in
    --key | --from | --prefix)
      [ $# -ge 2 ] || usage
      case "$1" in --key) key=$2 ;; --from) from=$2 ;; --prefix) prefix=$2 ;; esac
      shift
      ;;
    --unsigned) unsigned=yes ;;
    *) usage ;;
  esac
  shift
done
[ -n "$key" ] || [ -n "$unsigned" ] || usage

case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "no release for $(uname -s): see docs/install.md" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "no release for the processor $(uname -m): build it from source" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
get() {
  case "$from" in
    http://* | https://*) curl -fsSL -o "$work/$1" "$from/$1" || fail "$from/$1 cannot be fetched" ;;
    *) cp "$from/$1" "$work/$1" || fail "$1 is not in $from" ;;
  esac
}

get SHA256SUMS
if [ -n "$key" ]; then
  command -v openssl >/dev/null || fail "openssl is needed to check the signature"
  get SHA256SUMS.sig
  openssl base64 -d -A -in "$work/SHA256SUMS.sig" -out "$work/signature" 2>/dev/null || fail "SHA256SUMS.sig is no signature"
  openssl dgst -sha256 -verify "$key" -signature "$work/signature" "$work/SHA256SUMS" >/dev/null 2>&1 ||
    fail "SHA256SUMS is not signed by $key: do not install this"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(sealer_[^ /]*_${system}_$arch\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || fail "SHA256SUMS names no archive for $system/$arch"
get "$archive"
want=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
if command -v sha256sum >/dev/null; then sum=$(sha256sum <"$work/$archive"); else sum=$(shasum -a 256 <"$work/$archive"); fi
[ "${sum%% *}" = "$want" ] || fail "$archive does not have the checksum of SHA256SUMS: copied incompletely, or changed"

mkdir "$work/files"
tar -C "$work/files" --strip-components=1 -xzf "$work/$archive"
mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions"
# The name appears when the program is whole, so that a running one stays intact.
cp "$work/files/sealer" "$prefix/bin/.sealer.new"
chmod 0755 "$prefix/bin/.sealer.new"
mv -f "$prefix/bin/.sealer.new" "$prefix/bin/sealer"
cp "$work/files/man/"*.1.gz "$prefix/share/man/man1/"
cp "$work/files/completions/sealer.bash" "$prefix/share/bash-completion/completions/sealer"
"$prefix/bin/sealer" version
echo "install.sh: installed in $prefix"
