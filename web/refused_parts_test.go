package web_test

import (
	"maps"
	"strings"

	"quantix/internal/fleet"
)

// caseWithValues returns a case that sets several values. The value at the path at is wrong. Without operation, it is
// newAndEditedVM.
func caseWithValues(what, at, says string, s requestValues, operation ...caseOperation) refusal {
	c := refusal{what: what, sent: s, at: at, says: says}
	if len(operation) > 0 {
		c.operation = operation[0]
	}
	return c
}

func repeatedValue(n int, v any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func (r *refusalPortal) volumeRef(name string) map[string]any {
	return map[string]any{"poolId": r.stored, "volume": name}
}

// deviceCases returns cases about drives, shared folders, media and host devices.
func (r *refusalPortal) deviceCases() []refusal {
	const drive, device = "Choose one of cdrom2, cdrom3, cdrom4, floppy1, floppy2.", "Enter a device as the host's page lists it:"
	dev := func(name string) []any { return []any{map[string]any{"device": name}} }
	folder := func(tag string, of any) []any { return []any{map[string]any{"tag": tag, "folder": of}} }
	return []refusal{
		caseWithValues("a disc without a pool", "spec.iso.poolId", "Choose a pool.", requestValues{"spec.iso": map[string]any{"volume": "installer.iso"}}),
		caseWithValues("a disc that climbs", "spec.iso.volume", "Choose a volume of the pool", requestValues{"spec.iso": r.volumeRef("../../etc/shadow")}),
		caseWithValues("a disc that is none", "spec.iso.volume", `no volume "no-such.iso"`, requestValues{"spec.iso": r.volumeRef("no-such.iso")}, editedVM),
		caseWithValues("a disc that is a disk", "spec.iso.volume", "is not an ISO image", requestValues{"spec.iso": r.volumeRef("debian-12.qcow2")}, editedVM),
		caseWithValues("a drive without a slot", "spec.drives[0].slot", drive, requestValues{"spec.drives": []any{map[string]any{}}}),
		caseWithValues("a drive in the slot of the first drive", "spec.drives[0].slot", drive, requestValues{"spec.drives": []any{map[string]any{"slot": "cdrom1"}}}),
		caseWithValues("a drive with markup", "spec.drives[0].slot", drive, requestValues{"spec.drives": []any{map[string]any{"slot": "cdrom2'/>"}}}),
		caseWithValues("a slot twice", "spec.drives[1]", "Second CD-ROM is listed twice.", requestValues{"spec.drives": repeatedValue(2, map[string]any{"slot": "cdrom2"})}),
		caseWithValue("six drives", "spec.drives", repeatedValue(6, map[string]any{"slot": "cdrom2"}), "at most 5 drives."),
		caseWithValue("10,000 drives", "spec.drives", repeatedValue(10_000, map[string]any{"slot": "cdrom2"}), "at most 5 drives."),
		caseWithValues("a medium that climbs", "spec.drives[0].medium.volume", "Choose a volume of the pool", requestValues{"spec.drives": []any{map[string]any{"slot": "cdrom2", "medium": r.volumeRef("../x.iso")}}}),
		caseWithValues("a floppy that is a disc", "spec.drives[0].medium.volume", "is not a floppy", requestValues{"spec.drives": []any{map[string]any{"slot": "floppy1", "medium": r.volumeRef("installer.iso")}}}, editedVM),

		caseWithValues("a device by its device node", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("/dev/sda")}),
		caseWithValues("a PCI address without a function", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("pci/0000:41:00")}),
		caseWithValues("a device with markup", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("usb/046d:c52b'/>")}),
		caseWithValues("a device like an option", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("-device")}),
		caseWithValues("a USB port that is none", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("usb-port/1")}),
		caseWithValues("a disk by a path", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("blk/../../sda")}),
		caseWithValues("a mediated device by its id", "spec.hostDevices[0].device", device, requestValues{"spec.hostDevices": dev("mdev/" + fleet.NewID[string]())}),
		caseWithValues("a device twice", "spec.hostDevices[1]", "usb/046d:c52b is listed twice.", requestValues{"spec.hostDevices": repeatedValue(2, map[string]any{"device": "usb/046d:c52b"})}),
		caseWithValue("17 devices", "spec.hostDevices", repeatedValue(17, map[string]any{"device": "usb/046d:c52b"}), "at most 16 host devices."),
		caseWithValues("a device of a host that is none", "spec.hostDevices[0].hostId", "There is no such host.", requestValues{"spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": "-rf"}}}),
		caseWithValues("a place without its host", "spec.hostDevices[0].device", "Choose the host that has the device.", requestValues{"spec.hostDevices": dev("pci/0000:41:00.0")}, newVM),
		caseWithValues("a device of another host", "spec.hostDevices[0].device", "is a device of another host than host-2", requestValues{"hostId": r.other, "spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": r.host}}}, newVM),
		caseWithValues("a device of another host, by an edit", "spec.hostDevices[0].device", "is a device of another host than host-1", requestValues{"spec.hostDevices": []any{map[string]any{"device": "usb/046d:c52b", "hostId": r.other}}}, editedVM),
		caseWithValues("a device that the host has not", "spec.hostDevices[0].device", "host-2 has no device usb/046d:c52b", requestValues{"hostId": r.other, "spec.hostDevices": dev("usb/046d:c52b")}, newVM),
		caseWithValues("a device that stays with its host", "spec.hostDevices[0].device", "the device has no IOMMU group", requestValues{"hostId": r.host, "spec.hostDevices": dev("pci/0000:42:00.0")}, newVM),
		caseWithValues("a disk that its host uses", "spec.hostDevices[0].device", "host-1 uses blk/ata-A itself: the disk is mounted.", requestValues{"hostId": r.host, "spec.hostDevices": dev("blk/ata-A")}, newVM),

		caseWithValues("a folder without shared memory", "spec.memory.shared", "Shared folders need shared memory.", requestValues{"spec.shares": folder("src", r.volumeRef("src"))}),
		caseWithValues("a tag with a blank", "spec.shares[0].tag", "A tag has 1–36 letters", requestValues{"spec.shares": folder("a b", r.volumeRef("src"))}),
		caseWithValues("a tag with markup", "spec.shares[0].tag", "A tag has 1–36 letters", requestValues{"spec.shares": folder("a'/>", r.volumeRef("src"))}),
		caseWithValues("a tag like an option", "spec.shares[0].tag", "A tag has 1–36 letters", requestValues{"spec.shares": folder("-o", r.volumeRef("src"))}),
		caseWithValues("a folder outside its pool", "spec.shares[0].folder.volume", "Enter the name of a folder in the pool, not a path.", requestValues{"spec.shares": folder("src", r.volumeRef("../../etc"))}),
		caseWithValues("the pool as a folder", "spec.shares[0].folder.volume", "Enter the name of a folder in the pool, not a path.", requestValues{"spec.shares": folder("src", r.volumeRef("."))}),
		caseWithValues("a folder of no pool", "spec.shares[0].folder.poolId", "Choose the folder's pool.", requestValues{"spec.shares": folder("src", map[string]any{"volume": "src"})}),
		caseWithValues("a tag twice", "spec.shares[1]", "src is listed twice.", requestValues{"spec.shares": repeatedValue(2, map[string]any{"tag": "src", "folder": r.volumeRef("src")})}),
		caseWithValue("nine folders", "spec.shares", repeatedValue(9, map[string]any{"tag": "src", "folder": r.volumeRef("src")}), "at most 8 shared folders."),

		caseWithValues("a kernel without a pool", "spec.boot.kernel.poolId", "Choose a pool.", requestValues{"spec.boot.kernel": map[string]any{"volume": "vmlinuz"}}),
		caseWithValues("a kernel that climbs", "spec.boot.kernel.volume", "Choose a volume of the pool", requestValues{"spec.boot.kernel": r.volumeRef("../../boot/vmlinuz")}),
		caseWithValues("a kernel that is a disk", "spec.boot.kernel.volume", "is not a plain file", requestValues{"spec.boot.kernel": r.volumeRef("debian-12.qcow2")}, editedVM),
		caseWithValues("a RAM disk alone", "spec.boot.kernel", "An initial RAM disk or command line needs a", requestValues{"spec.boot.initrd": r.volumeRef("initrd")}),
		caseWithValues("a command line alone", "spec.boot.kernel", "An initial RAM disk or command line needs a", requestValues{"spec.boot.cmdline": "quiet"}),
		caseWithValue("a command line without end", "spec.boot.cmdline", strings.Repeat("a", 1001), "A command line is one line of at most 1000"),
	}
}

// contradictionCases returns cases with values that are valid alone but not together.
func (r *refusalPortal) contradictionCases() []refusal {
	node := func(cpus string, mib int) map[string]any { return map[string]any{"cpus": cpus, "memoryMiB": mib} }
	return []refusal{
		caseWithValues("secure boot with BIOS", "spec.security.secureBoot", "Secure Boot needs UEFI.", requestValues{"spec.firmware": "bios", "spec.security.secureBoot": true}),
		caseWithValues("two boot orders alike", "spec.nics[0].bootOrder", "Boot order 1 is already used by disk 1.", requestValues{"spec.disks[0].bootOrder": 1, "spec.nics[0].bootOrder": 1}),
		caseWithValues("the CD-ROM in a NIC's place", "spec.boot.cdrom", "Boot order 2 is already used by NIC 1.", requestValues{"spec.nics[0].bootOrder": 2, "spec.boot.cdrom": 2}),
		caseWithValues("a drive in a disk's place", "spec.drives[0].bootOrder", "Boot order 3 is already used by disk 1.", requestValues{"spec.disks[0].bootOrder": 3, "spec.drives[0].slot": "cdrom2", "spec.drives[0].bootOrder": 3}),
		caseWithValue("room for fewer vCPUs than there are", "spec.cpu.max", 1, "The maximum must be at least the VM's 2 vCPUs."),
		caseWithValue("room for less memory than there is", "spec.memory.maxMiB", 512, "The maximum must be at least the VM's 1024 MiB."),
		caseWithValue("sockets that make too many", "spec.cpu.sockets", 3, "Sockets × cores × threads is 3, and the VM has 2 vCPUs."),
		caseWithValues("sockets that miss the most", "spec.cpu.sockets", "and the VM has 8 vCPUs.", requestValues{"spec.cpu.max": 8, "spec.cpu.cores": 2}),
		caseWithValue("a feature twice", "spec.cpu.features", "+aes -aes", "aes is listed twice."),
		caseWithValue("huge pages of an odd size", "spec.memory.hugePageKiB", 3072, "A page size must be a power of 2:"),
		caseWithValues("huge pages that no host has", "spec.memory.hugePageKiB", "host-1 has no huge pages of 1048576 KiB.", requestValues{"hostId": r.host, "spec.memory.hugePageKiB": 1 << 20}, newVM),
		caseWithValues("huge pages that placement finds nowhere", "hostId", "no huge pages of 1048576 KiB", requestValues{"spec.memory.hugePageKiB": 1 << 20}, newVM),
		caseWithValue("huge pages that its host has not", "spec.memory.hugePageKiB", 1<<20, "host-1 has no huge pages of 1048576 KiB.", editedVM),
		caseWithValues("more huge pages than a host has", "spec.memory.hugePageKiB", "host-1 has 600 huge pages of 2048 KiB, and the VM needs 1024.", requestValues{"hostId": r.host, "spec.memoryMiB": 2048, "spec.memory.hugePageKiB": 2048}, newVM),
		caseWithValue("more to use than there is", "spec.memory.balloonMiB", 2048, "The balloon target must not exceed the VM's 1024 MiB."),
		caseWithValues("less to use without a balloon", "spec.memory.balloonMiB", "A balloon target needs a balloon.", requestValues{"spec.memory.balloonMiB": 512, "spec.devices.balloon": "none"}),
		caseWithValues("screens of a NIC that has one", "spec.display.heads", "Only a virtio or QXL graphics card can have several screens.", requestValues{"spec.display.heads": 2, "spec.display.video": "bochs"}),
		caseWithValue("USB devices without SPICE", "spec.display.usbRedirection", 2, "USB redirection needs SPICE."),
		caseWithValue("the action of no watchdog", "spec.devices.watchdogAction", "poweroff", "Choose a watchdog, or remove the watchdog action."),
		caseWithValues("encrypted memory with BIOS", "spec.security.confidential", "Memory encryption needs UEFI.", requestValues{"spec.firmware": "bios", "spec.security.confidential": "sev"}),
		caseWithValues("encrypted memory with secure boot", "spec.security.secureBoot", "libvirt has no firmware that supports both Secure Boot", requestValues{"spec.security.secureBoot": true, "spec.security.confidential": "sev"}),
		caseWithValues("encrypted memory that is given back", "spec.memory.balloonMiB", "The balloon cannot reclaim encrypted memory.", requestValues{"spec.memory.balloonMiB": 512, "spec.security.confidential": "sev"}),
		caseWithValues("encrypted memory with a balloon that tells", "spec.devices.balloon", "The guest cannot report free pages of encrypted memory.", requestValues{"spec.devices.balloon": "reporting", "spec.security.confidential": "sev"}),
		caseWithValues("encrypted memory with a folder", "spec.shares", "Shared folders need memory that the host can read.", requestValues{"spec.shares": []any{map[string]any{"tag": "a", "folder": r.volumeRef("a")}}, "spec.memory.shared": true, "spec.security.confidential": "sev"}),
		caseWithValues("measured vCPUs that come later", "spec.cpu.max", "The launch measurement covers the vCPUs, so none can", requestValues{"spec.cpu.max": 4, "spec.security.confidential": "tdx"}),

		caseWithValue("native I/O with a cache", "spec.disks[0].io", "native", "Native I/O needs the cache none or directsync."),
		caseWithValues("a read-only SATA disk", "spec.disks[0].readOnly", "A SATA disk cannot be read-only.", requestValues{"spec.disks[0].bus": "sata", "spec.disks[0].readOnly": true}),
		caseWithValue("a new disk that others have", "spec.disks[0].shareable", true, "A shared disk needs an existing volume."),
		caseWithValues("what others have, only read", "spec.disks[0].readOnly", "A read-only disk cannot be shared with VMs that", requestValues{"spec.disks[0].existing": true, "spec.disks[0].shareable": true, "spec.disks[0].readOnly": true}),
		caseWithValues("what others have, cached", "spec.disks[0].cache", "Hosts must not cache a shared disk:", requestValues{"spec.disks[0].existing": true, "spec.disks[0].shareable": true, "spec.disks[0].cache": "writeback"}),
		caseWithValues("an encrypted disk that is there", "spec.disks[0].encryption", "Only a new disk can.", requestValues{"spec.disks[0].existing": true, "spec.disks[0].encryption": "luks"}),
		caseWithValues("an encrypted disk from an image", "spec.disks[0].encryption", "An encrypted disk starts empty.", requestValues{"spec.disks[0].image": r.volumeRef("debian-12.qcow2"), "spec.disks[0].encryption": "luks"}),
		caseWithValues("operations in all and reads", "spec.disks[0].limits.totalIops", "Limit the total operations, or reads and writes", requestValues{"spec.disks[0].limits": requestValues{"totalIops": 9, "readIops": 5}}),
		caseWithValues("throughput in all and writes", "spec.disks[0].limits.totalKiB", "Limit the total throughput, or reads and writes", requestValues{"spec.disks[0].limits": requestValues{"totalKiB": 9, "writeKiB": 5}}),
		caseWithValue("a burst of no limit", "spec.disks[0].limits.burstIops", 5, "A burst must be above the limit of the total operations."),
		caseWithValues("a burst below the limit", "spec.disks[0].limits.burstKiB", "A burst must be above the limit of the total throughput.", requestValues{"spec.disks[0].limits": requestValues{"totalKiB": 9, "burstKiB": 9}}),
		caseWithValue("the length of no burst", "spec.disks[0].limits.burstSeconds", 5, "Enter a burst, or remove the burst length."),
		caseWithValues("queues of an e1000e", "spec.nics[0].queues", "Only a virtio NIC can have several queues.", requestValues{"spec.nics[0].model": "e1000e", "spec.nics[0].queues": 4}),
		caseWithValue("an inbound peak of no limit", "spec.nics[0].limits.inPeakKiB", 5, "A peak must be above the limit."),
		caseWithValues("an outbound peak below the limit", "spec.nics[0].limits.outPeakKiB", "A peak must be above the limit.", requestValues{"spec.nics[0].limits": requestValues{"outKiB": 9, "outPeakKiB": 5}}),
		caseWithValue("an inbound burst of no limit", "spec.nics[0].limits.inBurstKiB", 5, "Enter a limit, or remove the burst."),
		caseWithValue("an outbound burst of no limit", "spec.nics[0].limits.outBurstKiB", 5, "Enter a limit, or remove the burst."),
		caseWithValues("a limit that the kernel cannot keep", "spec.nics[0].limits.inKiB", "host-1 does not support this: inbound limit. The kernel lacks sch_sfq.",
			requestValues{"hostId": r.host, "spec.nics[0].limits": requestValues{"inKiB": 9}}, newVM),
		caseWithValues("a limit that its kernel cannot keep", "spec.nics[0].limits.outKiB", "host-1 does not support this: outbound limit. The kernel lacks sch_sfq.",
			requestValues{"spec.nics[0].network": "default", "spec.nics[0].limits": requestValues{"outKiB": 9}}, editedVM),
		caseWithValues("a limit of a running VM that its kernel cannot keep", "spec.nics[0].limits.outKiB", "does not support this: outbound limit.",
			requestValues{"spec.nics[0].network": "default", "spec.nics[0].limits": requestValues{"outKiB": 9}}, editedRunningVM),

		caseWithValue("one node", "spec.numa", []any{node("0-1", 1024)}, "Define two or more NUMA nodes, or none."),
		caseWithValue("65 nodes", "spec.numa", repeatedValue(65, node("0", 1)), "at most 64 NUMA nodes."),
		caseWithValues("a vCPU beyond all", "spec.numa[1].cpus", "The VM has no vCPU 2", requestValues{"spec.numa": []any{node("0", 512), node("1-2", 512)}}),
		caseWithValues("a range that goes down", "spec.numa[1].cpus", "Enter vCPU numbers and ranges, such as 0-3,6.", requestValues{"spec.numa": []any{node("0", 512), node("1-0", 512)}}),
		caseWithValues("a vCPU twice", "spec.numa[0].cpus", "vCPU 0 is listed twice.", requestValues{"spec.numa": []any{node("0,0", 512), node("1", 512)}}),
		caseWithValues("a vCPU in two nodes", "spec.numa[1].cpus", "vCPU 0 is already in node 0.", requestValues{"spec.numa": []any{node("0", 512), node("0-1", 512)}}),
		caseWithValues("a vCPU in none", "spec.numa", "vCPU 2 is in no node.", requestValues{"spec.cpus": 3, "spec.numa": []any{node("0", 512), node("1", 512)}}),
		caseWithValues("memory in no node", "spec.numa", "The nodes have 768 MiB, and the VM has 1024 MiB.", requestValues{"spec.numa": []any{node("0", 512), node("1", 256)}}),
		caseWithValues("a node without memory", "spec.numa[1].memoryMiB", "A node needs at least 1 MiB of the", requestValues{"spec.numa": []any{node("0", 1024), node("1", 0)}}),
		caseWithValues("a part of a page", "spec.numa[0].memoryMiB", "A node's memory must be a multiple of the huge page size of 2048 KiB.", requestValues{"spec.memory.hugePageKiB": 2048, "spec.numa": []any{node("0", 511), node("1", 513)}}),
		caseWithValues("host nodes of a node that are none", "spec.numa[0].nodes", "Enter numbers and ranges, such as 0-1.", requestValues{"spec.numa": []any{map[string]any{"cpus": "0", "memoryMiB": 512, "nodes": "a'/>"}, node("1", 512)}}),
		caseWithValues("nodes twice over", "spec.memory.nodes", "The VM's NUMA nodes already select host nodes.", requestValues{"spec.memory.nodes": "0", "spec.numa": []any{map[string]any{"cpus": "0", "memoryMiB": 512, "nodes": "0"}, node("1", 512)}}),
	}
}

// policyCases returns cases about placement rules and health checks.
func (r *refusalPortal) policyCases() []refusal {
	rule := func(of, name string) map[string]any { return map[string]any{"of": of, "name": name} }
	health := func(kind string, more requestValues) []any {
		v := map[string]any{"kind": kind}
		maps.Copy(v, more)
		return []any{v}
	}
	const number = "Enter a whole number from"
	return []refusal{
		caseWithValue("17 rules", "spec.rules", repeatedValue(17, rule("vm", "db")), "at most 16 placement rules."),
		caseWithValues("a rule of nothing", "spec.rules[0].of", "The kind of a rule must be vm, vmLabels, host or hostLabels.", requestValues{"spec.rules": []any{rule("pool", "x")}}),
		caseWithValues("a rule without a name", "spec.rules[0].name", "Enter a name.", requestValues{"spec.rules": []any{rule("vm", "")}}),
		caseWithValues("a rule of a strange VM", "spec.rules[0].name", "A name has 1–63", requestValues{"spec.rules": []any{rule("vm", "a;id")}}),
		caseWithValues("a rule of a strange host", "spec.rules[0].name", "Enter the name of a host.", requestValues{"spec.rules": []any{rule("host", "-rf")}}),
		caseWithValues("a rule of no labels", "spec.rules[0].name", "Enter labels such as tier=web, or tier alone for", requestValues{"spec.rules": []any{rule("vmLabels", " ")}}),
		caseWithValues("a rule of labels with asterisks", "spec.rules[0].name", "write key=value, or the key alone.", requestValues{"spec.rules": []any{rule("hostLabels", "a=b*")}}),
		caseWithValues("a rule twice", "spec.rules[1].name", "Rule 1 is the same.", requestValues{"spec.rules": repeatedValue(2, rule("vm", "db"))}),
		caseWithValues("a rule and its opposite", "spec.rules[1].name", "Rule 1 is the opposite.", requestValues{"spec.rules": []any{rule("vm", "db"), map[string]any{"of": "vm", "name": "db", "apart": true}}}),

		caseWithValue("nine checks", "spec.health", repeatedValue(9, map[string]any{"kind": "agent"}), "at most 8 health checks."),
		caseWithValues("a check of nothing", "spec.health[0].kind", "Choose one of agent, tcp, http, exec, watchdog, screen.", requestValues{"spec.health": health("ping", nil)}),
		caseWithValues("a check twice", "spec.health[1].kind", "Check 1 already checks the same.", requestValues{"spec.health": repeatedValue(2, map[string]any{"kind": "agent"})}),
		caseWithValues("a check without a port", "spec.health[0].port", "Enter a port from 1 to 65535.", requestValues{"spec.health": health("tcp", nil)}),
		caseWithValues("a port beyond all", "spec.health[0].port", number, requestValues{"spec.health": health("tcp", requestValues{"port": 65536})}),
		caseWithValues("a port of the agent", "spec.health[0].port", "Only TCP and web server checks have this field.", requestValues{"spec.health": health("agent", requestValues{"port": 1})}),
		caseWithValues("a path of a port", "spec.health[0].path", "Only web server checks have this field.", requestValues{"spec.health": health("tcp", requestValues{"port": 1, "path": "/"})}),
		caseWithValues("a path without its beginning", "spec.health[0].path", "A path begins with /", requestValues{"spec.health": health("http", requestValues{"path": "health"})}),
		caseWithValues("a path with a line break", "spec.health[0].path", "A path begins with /", requestValues{"spec.health": health("http", requestValues{"path": "/ HTTP/1.1\r\nHost: x"})}),
		caseWithValues("a status that is none", "spec.health[0].status", number, requestValues{"spec.health": health("http", requestValues{"status": 99})}),
		caseWithValues("a program of a port", "spec.health[0].program", "Only program checks have this field.", requestValues{"spec.health": health("tcp", requestValues{"port": 1, "program": "/bin/true"})}),
		caseWithValues("a program without a name", "spec.health[0].program", "Enter a program, such as /usr/bin/systemctl.", requestValues{"spec.health": health("exec", nil), "spec.policy.guestExec": true}),
		caseWithValues("a program that nobody allows", "spec.health[0].kind", "does not allow programs to be run in its guest", requestValues{"spec.health": health("exec", requestValues{"program": "/bin/true"})}),
		caseWithValues("an interval that is short", "spec.health[0].interval", number, requestValues{"spec.health": health("agent", requestValues{"interval": 1})}),
		caseWithValues("an interval that is long", "spec.health[0].interval", number, requestValues{"spec.health": health("agent", requestValues{"interval": 3601})}),
		caseWithValues("a wait that is long", "spec.health[0].timeout", number, requestValues{"spec.health": health("agent", requestValues{"timeout": 61})}),
		caseWithValues("a wait beyond the interval", "spec.health[0].timeout", "The timeout must not exceed the interval of 10 s.", requestValues{"spec.health": health("agent", requestValues{"timeout": 11})}),
		caseWithValues("a threshold below none", "spec.health[0].threshold", number, requestValues{"spec.health": health("agent", requestValues{"threshold": -1})}),
		caseWithValues("a grace that is short", "spec.health[0].grace", number, requestValues{"spec.health": health("agent", requestValues{"grace": 1})}),
		caseWithValues("an action that is none", "spec.health[0].action", "Choose one of restart, reset, or leave the field empty.", requestValues{"spec.health": health("agent", requestValues{"action": "rm -rf"})}),
		caseWithValues("the agent without a channel", "spec.health[0].kind", "The VM has no channel for a guest agent.", requestValues{"spec.health": health("agent", nil), "spec.devices.guestAgent": "none"}),
		caseWithValues("the watchdog that is none", "spec.health[0].kind", "The VM has no watchdog.", requestValues{"spec.health": health("watchdog", nil)}),
		caseWithValues("the screen without a NIC", "spec.health[0].kind", "The VM has no graphics device and therefore no", requestValues{"spec.health": health("screen", nil), "spec.display.video": "none"}),
		caseWithValues("a port without a NIC", "spec.health[0].kind", "The VM has no NIC to check.", requestValues{"spec.health": health("tcp", requestValues{"port": 22}), "spec.nics": []any{}}),
	}
}
