# PID 1 of one lab host: bash -c SCRIPT supervisor DIR NAME CGROUP NETWORK, in new mount, UTS and PID namespaces.
#
# It mounts the host's own directories, prints "ready" and reads standard input until end of file. That comes when Stop
# closes it, or when the program that holds it dies for any reason. The script then ends the networks, which live in the
# machine's network namespace, and exits: the kernel then kills every process of the PID namespace. While it reads, bash
# reaps orphaned processes.
set -eu
dir=$1 name=$2 cgroup=$3 network=$4

mount --make-rprivate /
mount -t proc proc /proc
echo "$name" >/proc/sys/kernel/hostname

# sysfs shows the devices of the network namespace in which it was mounted.
if [ "$network" = own ]; then
	mkdir -p "$dir/cgroups"
	mount --rbind /sys/fs/cgroup "$dir/cgroups"
	umount -R -l /sys
	mount -t sysfs sysfs /sys
	mount --rbind "$dir/cgroups" /sys/fs/cgroup
	umount -R -l "$dir/cgroups"
	mkdir -p "$dir/netrun"
	: >>/run/xtables.lock
	: >>"$dir/netrun/xtables.lock"
	mount --bind "$dir/netrun/xtables.lock" /run/xtables.lock
fi

bind() {
	mkdir -p "$2"
	mount --bind "$1" "$2"
}
bind "$dir/etc" /etc/libvirt
bind "$dir/lib" /var/lib/libvirt
bind "$dir/cache" /var/cache/libvirt
bind "$dir/log" /var/log/libvirt
bind "$dir/run" /run/libvirt
# libvirt finds Open vSwitch by this path. It must find only the lab host's own instance, never the machine's.
if [ "$network" = own ]; then
	mkdir -p "$dir/ovs"
	bind "$dir/ovs" /run/openvswitch
fi
mount --bind "$dir/hosts" /etc/hosts
if [ -e /etc/machine-id ]; then mount --bind "$dir/machine-id" /etc/machine-id; fi
if [ -d /var/log/swtpm ]; then
	mkdir -p "$dir/log/swtpm/libvirt/qemu"
	mount --bind "$dir/log/swtpm" /var/log/swtpm
fi
# Hide D-Bus: the machine's systemd must not register a lab host's guests, whose PIDs differ outside the namespace.
if [ -d /run/dbus ]; then mount --bind "$dir/no-dbus" /run/dbus; fi
# A lab host has no KVM. If libvirt can open a /dev/kvm that QEMU cannot use, it probes QEMU again at each lookup, which
# takes seconds. Not even root can open this read-only file for writing.
if [ -e /dev/kvm ]; then
	mount --bind "$dir/no-kvm" /dev/kvm
	mount -o remount,bind,ro /dev/kvm
fi

# Each host sees its own branch of every cgroup hierarchy as the root; otherwise guests of the same name on two hosts
# would share a cgroup. If no branch can be created, the host runs without cgroups.
hierarchies() {
	while read -r _ at kind _; do
		case $kind in cgroup | cgroup2) echo "$at" ;; esac
	done </proc/mounts
}
enter_branch() {
	mkdir -p "$1/$cgroup" || return 1
	if [ -e "$1/cpuset.cpus" ] && [ ! -e "$1/cgroup.controllers" ]; then
		cat "$1/cpuset.cpus" >"$1/$cgroup/cpuset.cpus" || return 1
		cat "$1/cpuset.mems" >"$1/$cgroup/cpuset.mems" || return 1
	fi
	if [ -e "$1/cgroup.controllers" ]; then
		for c in $(cat "$1/cgroup.controllers"); do echo "+$c" >"$1/cgroup.subtree_control" || true; done
	fi
	echo 0 >"$1/$cgroup/cgroup.procs"
}
branched=true
for h in $(hierarchies); do enter_branch "$h" || branched=false; done
if ! $branched; then
	echo "this host cannot have cgroups of its own, so its libvirt works without them" >&2
	for h in $(hierarchies); do umount -l "$h" || true; done
fi
export -f hierarchies

# The root of a cgroup namespace is its creator's cgroup, hence the second step. exec keeps PID 1.
exec unshare --cgroup -- bash -c '
set -u
for h in $(hierarchies); do
	mount --bind "$h/$1" "$h"
	# cgroup2 enables controllers for children only if their parent has no processes.
	if [ -e "$h/cgroup.controllers" ]; then
		mkdir -p "$h/supervisor"
		echo 0 >"$h/supervisor/cgroup.procs"
		for c in $(cat "$h/cgroup.controllers"); do echo "+$c" >"$h/cgroup.subtree_control"; done
	fi
done
trap "" HUP INT TERM
echo ready
exec >/dev/null
while read -r _; do :; done
if [ -S /run/libvirt/libvirt-sock ]; then
	for net in $(timeout -k 1 3 virsh -q -c qemu:///system net-list --name); do
		timeout -k 1 3 virsh -q -c qemu:///system net-destroy "$net"
	done
fi
' supervisor "$cgroup"
