package doctor

import (
	"context"
	"slices"
)

// requirement is something that Quantix needs on a machine. Any one of its programs or files is enough.
type requirement struct {
	name     string
	why      string
	required []Purpose
	optional []Purpose // optional for these purposes
	programs []string  // names looked up in PATH and the sbin directories
	files    []string  // globs from the root, without the leading slash
	probe    func(context.Context, *machine) (found string, ok bool)
	debian   []string
	rpm      []string // packages of Fedora and RHEL
	brew     []string
	fix      string // instruction if no package contains it
}

func (n requirement) appliesTo(p Purpose) bool {
	return slices.Contains(n.required, p) || slices.Contains(n.optional, p)
}

var (
	forLab   = []Purpose{Lab, Test, Bench}
	forTests = []Purpose{Test}
	forHosts = []Purpose{Agent, Lab, Test, Bench}
	forAgent = []Purpose{Agent}
)

// requirements lists the requirements of all purposes.
var requirements = []requirement{
	{
		name: "PostgreSQL", why: "private database (not needed with --database-url)", required: []Purpose{Portal, Demo, Lab, Test, Bench},
		probe: probePostgres, debian: []string{"postgresql"}, rpm: []string{"postgresql-server"}, brew: []string{"postgresql@17"},
	},
	{
		name: "Linux", why: "namespaces and libvirt hosts", required: forHosts,
		probe: probeLinux, fix: "use a Linux machine; the demo runs on any system",
	},
	{
		name: "root", why: "mount namespaces and libvirt's system daemon", required: forHosts,
		probe: probeAdministrator, fix: "run it as root, with sudo for example",
	},
	{
		name: "libvirt daemon", why: "manages the VMs", required: forAgent, programs: []string{"libvirtd", "virtqemud"},
		debian: []string{"libvirt-daemon-system"}, rpm: []string{"libvirt-daemon-kvm"},
	},
	{
		name: "libvirt socket", why: "the agent's way to libvirt", required: forAgent,
		probe: probeLibvirtSocket, fix: "systemctl enable --now libvirtd.socket (or virtqemud.socket)",
	},
	{
		name: "KVM", why: "fast VMs; without it they are emulated (TCG), which is slow", optional: forAgent,
		probe: probeKVM, fix: "switch virtualisation on in the firmware and load kvm_intel or kvm_amd",
	},
	{
		name: "libvirtd", why: "one daemon for each host of the lab", required: forLab, programs: []string{"libvirtd"},
		debian: []string{"libvirt-daemon-system"}, rpm: []string{"libvirt-daemon-kvm"},
	},
	{
		name: "virtlogd", why: "keeps the guests' consoles", required: forLab, programs: []string{"virtlogd"},
		debian: []string{"libvirt-daemon-system"}, rpm: []string{"libvirt-daemon-log"},
	},
	{
		name: "virsh", why: "a second look at each host", required: forLab, programs: []string{"virsh"},
		debian: []string{"libvirt-clients"}, rpm: []string{"libvirt-client"},
	},
	{
		name: "QEMU", why: "runs the VMs", required: forAgent,
		programs: []string{"qemu-system-x86_64", "qemu-system-aarch64", "qemu-kvm"}, files: []string{"usr/libexec/qemu-kvm"},
		debian: []string{"qemu-system-x86"}, rpm: []string{"qemu-kvm"},
	},
	{
		name: "qemu-system-x86_64", why: "runs the VMs", required: forLab, programs: []string{"qemu-system-x86_64"},
		debian: []string{"qemu-system-x86"}, rpm: []string{"qemu-system-x86-core"},
	},
	{
		name: "qemu-img", why: "makes and clones disks", required: forHosts, programs: []string{"qemu-img"},
		debian: []string{"qemu-utils"}, rpm: []string{"qemu-img"},
	},
	{
		name: "OVMF", why: "firmware of VMs that boot by UEFI", required: forLab, optional: forAgent,
		files: []string{
			"usr/share/OVMF/OVMF_CODE*.fd", "usr/share/edk2/ovmf/OVMF_CODE*.fd", "usr/share/edk2/x64/OVMF_CODE*.fd",
			"usr/share/qemu/edk2-x86_64-code.fd", "usr/share/qemu/ovmf-x86_64*.bin",
		},
		debian: []string{"ovmf"}, rpm: []string{"edk2-ovmf"},
	},
	{
		name: "dnsmasq", why: "addresses in libvirt's networks", required: forLab, optional: forAgent, programs: []string{"dnsmasq"},
		debian: []string{"dnsmasq-base"}, rpm: []string{"dnsmasq"},
	},
	{
		name: "mount.nfs", why: "pools on NFS", optional: forAgent, programs: []string{"mount.nfs"},
		debian: []string{"nfs-common"}, rpm: []string{"nfs-utils"},
	},
	{
		name: "mount.glusterfs", why: "pools on GlusterFS", optional: forAgent, programs: []string{"mount.glusterfs"},
		debian: []string{"glusterfs-client"}, rpm: []string{"glusterfs-fuse"},
	},
	{
		name: "libvirt's iscsi-direct driver", why: "pools on iSCSI direct", optional: forAgent, required: forTests, files: storageDriverPaths("iscsi-direct"),
		debian: []string{"libvirt-daemon-driver-storage-iscsi-direct"}, rpm: []string{"libvirt-daemon-driver-storage-iscsi-direct"},
	},
	{
		name: "libvirt's rbd driver", why: "pools on Ceph RBD", optional: forAgent, required: forTests, files: storageDriverPaths("rbd"),
		debian: []string{"libvirt-daemon-driver-storage-rbd"}, rpm: []string{"libvirt-daemon-driver-storage-rbd"},
	},
	{
		name: "QEMU's iSCSI driver", why: "disks on iSCSI direct", optional: forAgent, required: forTests, files: blockDriverPaths("iscsi"),
		debian: []string{"qemu-block-extra"}, rpm: []string{"qemu-block-iscsi"},
	},
	{
		name: "QEMU's RBD driver", why: "disks on Ceph RBD", optional: forAgent, required: forTests, files: blockDriverPaths("rbd"),
		debian: []string{"qemu-block-extra"}, rpm: []string{"qemu-block-rbd"},
	},
	{
		name: "iscsiadm", why: "pools on iSCSI", optional: forAgent, programs: []string{"iscsiadm"},
		debian: []string{"open-iscsi"}, rpm: []string{"iscsi-initiator-utils"},
	},
	{
		name: "lvm", why: "pools on LVM", optional: forAgent, programs: []string{"lvm"}, debian: []string{"lvm2"}, rpm: []string{"lvm2"},
	},
	{
		name: "tgtd", why: "the iSCSI target of pools in tests", required: forTests, programs: []string{"tgtd"},
		debian: []string{"tgt"}, rpm: []string{"scsi-target-utils"},
	},
	{
		name: "ceph-mon", why: "the Ceph cluster of pools in tests", required: forTests, programs: []string{"ceph-mon"},
		debian: []string{"ceph-mon"}, rpm: []string{"ceph-mon"},
	},
	{
		name: "ceph-osd", why: "the Ceph cluster of pools in tests", required: forTests, programs: []string{"ceph-osd"},
		debian: []string{"ceph-osd"}, rpm: []string{"ceph-osd"},
	},
	{
		name: "ceph", why: "the Ceph cluster of pools in tests", required: forTests, programs: []string{"ceph"},
		debian: []string{"ceph-common"}, rpm: []string{"ceph-common"},
	},
	{
		name: "glusterd", why: "the server of pools in tests", required: forTests, programs: []string{"glusterd"},
		debian: []string{"glusterfs-server"}, rpm: []string{"glusterfs-server"},
	},
	{
		name: "mkfs.xfs", why: "file systems of pools in tests", required: forTests, programs: []string{"mkfs.xfs"},
		debian: []string{"xfsprogs"}, rpm: []string{"xfsprogs"},
	},
	{
		name: "mkfs.btrfs", why: "file systems of pools in tests", required: forTests, programs: []string{"mkfs.btrfs"},
		debian: []string{"btrfs-progs"}, rpm: []string{"btrfs-progs"},
	},
	{
		name: "mkfs.ext4", why: "file systems of pools in tests", required: forTests, programs: []string{"mkfs.ext4"},
		debian: []string{"e2fsprogs"}, rpm: []string{"e2fsprogs"},
	},
	programRequirement("iptables", "libvirt's networks and broken ones in tests", "iptables", "iptables-nft"),
	{
		name: "ovs-vsctl", why: "networks on Open vSwitch bridges", optional: forAgent, required: forTests, programs: []string{"ovs-vsctl"},
		debian: []string{"openvswitch-switch"}, rpm: []string{"openvswitch"},
	},
	{
		name: "swtpm", why: "TPMs of guests", optional: forAgent, required: forTests, programs: []string{"swtpm", "swtpm_setup"},
		debian: []string{"swtpm", "swtpm-tools"}, rpm: []string{"swtpm", "swtpm-tools"},
	},
	programRequirement("nft", "libvirt's networks", "nftables", "nftables"),
	programRequirement("ip", "bridges and network namespaces", "iproute2", "iproute"),
	programRequirement("unshare", "a host of its own in namespaces", "util-linux", "util-linux"),
	programRequirement("nsenter", "programs on such a host", "util-linux", "util-linux-core"),
	programRequirement("cpio", "packs the guest's system", "cpio", "cpio"),
	programRequirement("gzip", "packs the guest's system", "gzip", "gzip"),
	{
		name: "busybox (static)", why: "the guest's programs", required: forLab,
		probe: probeStaticBusybox, debian: []string{"busybox-static"}, rpm: []string{"busybox"},
	},
	programRequirement("xorriso", "makes the guest's boot image", "xorriso", "xorriso"),
	{
		name: "isolinux", why: "boot loader of the guest's image", required: forLab, files: []string{"usr/lib/ISOLINUX/isolinux.bin"},
		debian: []string{"isolinux"},
	},
	{
		name: "syslinux modules", why: "boot loader of the guest's image", required: forLab,
		files: []string{"usr/lib/syslinux/modules/bios/ldlinux.c32"}, debian: []string{"syslinux-common"},
	},
	{
		name: "mmdebstrap", why: "builds the cloud image of the tests", required: forTests, programs: []string{"mmdebstrap"},
		debian: []string{"mmdebstrap"}, rpm: []string{"mmdebstrap"},
	},
	{
		name: "sfdisk", why: "builds the cloud image of the tests", required: forTests, programs: []string{"sfdisk"},
		debian: []string{"fdisk"}, rpm: []string{"util-linux-core"},
	},
	{
		name: "modprobe", why: "builds the cloud image of the tests", required: forTests, programs: []string{"modprobe"},
		debian: []string{"kmod"}, rpm: []string{"kmod"},
	},
	{
		name: "Chromium", why: "the browser of the end-to-end tests", required: forTests,
		programs: []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"},
		debian:   []string{"chromium"}, rpm: []string{"chromium"},
	},
	{
		name: "HAProxy", why: "the balancer before several portals", required: forTests, programs: []string{"haproxy"},
		debian: []string{"haproxy"}, rpm: []string{"haproxy"},
	},
	{
		name: "nginx", why: "the other balancer before several portals", required: forTests, programs: []string{"nginx"},
		debian: []string{"nginx-light"}, rpm: []string{"nginx"},
	},
	{
		name: "nginx's stream module", why: "passes agents' TLS on", required: forTests,
		files:  []string{"usr/lib/nginx/modules/ngx_stream_module.so", "usr/lib64/nginx/modules/ngx_stream_module.so"},
		debian: []string{"libnginx-mod-stream"}, rpm: []string{"nginx-mod-stream"},
	},
	{
		name: "PgBouncer", why: "the pooler that portals are tried behind", required: forTests, programs: []string{"pgbouncer"},
		debian: []string{"pgbouncer"}, rpm: []string{"pgbouncer"},
	},
	{
		name: "websockify", why: "the peer of the consoles' benchmarks", required: []Purpose{Bench}, programs: []string{"websockify"},
		debian: []string{"websockify"}, rpm: []string{"python3-websockify"},
	},
	{
		name: "C compiler", why: "the race detector and sqlc", required: forTests, programs: []string{"gcc", "cc", "clang"},
		debian: []string{"gcc"}, rpm: []string{"gcc"},
	},
	{
		name: "C headers", why: "the race detector and sqlc", required: forTests, files: []string{"usr/include/stdlib.h"},
		debian: []string{"libc6-dev"}, rpm: []string{"glibc-devel"},
	},
}

// storageDriverPaths and blockDriverPaths return the paths of libvirt's and QEMU's drivers on the distributions.
func storageDriverPaths(name string) []string {
	const file = "libvirt/storage-backend/libvirt_storage_backend_"
	return []string{"usr/lib/*/" + file + name + ".so", "usr/lib64/" + file + name + ".so", "usr/lib/" + file + name + ".so"}
}

func blockDriverPaths(name string) []string {
	file := "qemu*/block-" + name + ".so"
	return []string{"usr/lib/*/" + file, "usr/lib64/" + file, "usr/lib/" + file}
}

// programRequirement returns the requirement of the lab, the tests and the benchmarks for a program with that name.
func programRequirement(name, why, debian, rpm string) requirement {
	return requirement{
		name: name, why: why, required: forLab, programs: []string{name}, debian: []string{debian}, rpm: []string{rpm},
	}
}
