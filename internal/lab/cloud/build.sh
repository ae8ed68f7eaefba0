#!/bin/bash
# build.sh WORK OUT: a Debian with cloud-init from Debian's packages alone, as a disk that boots by BIOS and by UEFI. It installs nothing on this machine,
# and needs no loop device.
set -eu
W=$1 OUT=$2 R=$W/rootfs
mmdebstrap --quiet --variant=minbase --mode=root --components=main \
  --include=systemd-sysv,udev,cloud-init,qemu-guest-agent,openssh-server,linux-image-cloud-amd64,iproute2,isc-dhcp-client,ifupdown,netbase,sudo,login,passwd,kmod,procps,cloud-guest-utils,e2fsprogs,busybox-static \
  --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  bookworm "$R" "deb http://deb.debian.org/debian bookworm main"
KV=$(ls "$R/lib/modules")
rm -rf "$R"/dev/* "$R"/var/lib/apt/lists/* "$R"/var/cache/apt/* "$R"/etc/ssh/ssh_host_*
: > "$R/etc/machine-id"
echo cloud > "$R/etc/hostname"
echo 'LABEL=cloudimg-root / ext4 defaults,noatime 0 1' > "$R/etc/fstab"
cat > "$R/etc/cloud/cloud.cfg.d/99-fast.cfg" <<'C'
datasource_list: [ NoCloud, None ]
ssh_genkeytypes: [ ed25519 ]
ssh_deletekeys: false
apt_preserve_sources_list: true
cloud_init_modules: [ bootcmd, write-files, growpart, resizefs, set_hostname, users-groups, ssh ]
cloud_config_modules: [ set-passwords, runcmd ]
cloud_final_modules: [ scripts-user ]
C
install -m 755 "$(dirname "$0")/ci-init" "$R/sbin/ci-init"
rm -rf "$R"/usr/share/{i18n,perl,doc,man,locale,info} "$R"/usr/lib/udev/hwdb.{d,bin} "$R"/usr/lib/python3/dist-packages/*/tests
(cd "$R/lib/modules/$KV/kernel"; find . -name '*.ko' | grep -vE 'virtio|/(fat|nls|isofs|cdrom|scsi|net/core|failover|net_failover|hw_random|af_packet|crc)' | xargs rm -f)
depmod -b "$R" "$KV"
# An initramfs that does no more than mount the root.
I=$W/initrd
mkdir -p "$I"/{bin,dev,proc,n,m}
cp "$R/bin/busybox" "$I/bin/"
n=0
for m in virtio_pci virtio_blk; do modprobe -d "$R" -S "$KV" --show-depends $m | awk '$1=="insmod"{print $2}'; done | awk '!s[$0]++' | while read -r f; do
  n=$((n + 1)); cp "$f" "$I/m/$(printf %02d $n)-$(basename "$f")"
done
install -m 755 "$(dirname "$0")/initrd-init" "$I/init"
(cd "$I"; find . | cpio -o -H newc --quiet | gzip -9) > "$R/boot/initrd.img-$KV"
mkdir -p "$R/boot/grub"
printf 'set timeout=0\nlinux /boot/vmlinuz-%s root=/dev/vda3 rw console=ttyS0 quiet no_timer_check tsc=reliable random.trust_cpu=on mitigations=off memhp_default_state=online\ninitrd /boot/initrd.img-%s\nboot\n' "$KV" "$KV" > "$R/boot/grub/grub.cfg"
# Partitions: 1 for GRUB of a BIOS, 2 for that of UEFI, 3 the root.
SIZE=600 D=$W/disk.raw G=$W/grub/usr/lib/grub/i386-pc
truncate -s $((SIZE + 11))M "$D"
sfdisk -q "$D" <<P
label: gpt
start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649
start=4096, size=16384, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
start=20480, size=$((SIZE * 2048)), type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
P
mkfs.ext4 -q -F -L cloudimg-root -m 0 -O ^has_journal,^metadata_csum_seed -d "$R" "$W/root.img" ${SIZE}M
dd if="$W/root.img" of="$D" bs=1M seek=10 conv=notrunc,sparse status=none
printf 'search --label --set=root cloudimg-root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n' > "$W/grub.cfg"
# shim, signed for everybody's firmware, starts GRUB, signed by Debian, which starts the kernel, signed by Debian.
mkdir -p "$W/etc" && : > "$W/etc/mtools.conf"
mtool() { MTOOLS_SKIP_CHECK=1 MTOOLSRC="$W/etc/mtools.conf" "$W/grub/usr/bin/mtools" -c "$@"; }
truncate -s 8M "$W/esp.img"
mtool mformat -i "$W/esp.img" -T 16384 -h 16 -s 63 ::
mtool mmd -i "$W/esp.img" ::EFI ::EFI/BOOT ::EFI/debian
mtool mcopy -i "$W/esp.img" "$W/grub/usr/lib/shim/shimx64.efi.signed" ::EFI/BOOT/BOOTX64.EFI
mtool mcopy -i "$W/esp.img" "$W/grub/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" ::EFI/BOOT/grubx64.efi
mtool mcopy -i "$W/esp.img" "$W/grub.cfg" ::EFI/debian/grub.cfg
dd if="$W/esp.img" of="$D" bs=1M seek=2 conv=notrunc,sparse status=none
LD_LIBRARY_PATH=$W/grub/lib/x86_64-linux-gnu:$W/grub/usr/lib/x86_64-linux-gnu "$W/grub/usr/bin/grub-mkimage" -d "$G" -O i386-pc -o "$W/core.img" -c "$W/grub.cfg" -p /boot/grub \
  biosdisk part_gpt ext2 search search_label configfile linux normal
le() { printf "$(printf '\\x%02x' $(for i in 0 1 2 3 4 5 6 7; do echo $(($1 >> (8 * i) & 255)); done) | head -c $((4 * $2)))"; }
# What grub-bios-setup writes: where core.img lies, in its first sector where the rest of it does, and that the BIOS's drive is to be believed.
put() { dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
truncate -s %512 "$W/core.img"
SECTORS=$(($(stat -c %s "$W/core.img") / 512))
le 2049 8 | put "$W/core.img" 500
le $((SECTORS - 1)) 2 | put "$W/core.img" 508
le $((0x820)) 2 | put "$W/core.img" 510
head -c 440 "$G/boot.img" > "$W/boot.img"
le 2048 8 | put "$W/boot.img" $((0x5c))
printf '\x90\x90' | put "$W/boot.img" $((0x66))
dd if="$W/boot.img" of="$D" conv=notrunc status=none
dd if="$W/core.img" of="$D" bs=512 seek=2048 conv=notrunc status=none
qemu-img convert -O qcow2 "$D" "$OUT"
