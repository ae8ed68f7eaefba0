package web_test

import (
	"fmt"
	"net/http"
	"strings"

	"quantix/internal/fleet"
)

// caseWithValue returns a case that sets only the value at the path at, which is wrong. Without operation, it is
// newAndEditedVM.
func caseWithValue(what, at string, value any, says string, operation ...caseOperation) refusal {
	c := refusal{what: what, sent: requestValues{at: value}, says: says}
	if len(operation) > 0 {
		c.operation = operation[0]
	}
	return c
}

func (r *refusalPortal) nameCases() []refusal {
	const name, label = "A name has 1–63 lower-case letters", "use lower-case letters, digits and hyphens"
	many := func(n int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprintf("Label %d", i)] = "x"
		}
		return out
	}
	return []refusal{
		caseWithValue("no name", "name", "", "Enter a name."),
		caseWithValue("a name like an option", "name", "-rf", name),
		caseWithValue("a name with a command", "name", "a;id", name),
		caseWithValue("a name with a command substitution", "name", "$(id)", name),
		caseWithValue("a name with markup", "name", "<b>a</b>", name),
		caseWithValue("a name with a CDATA end", "name", "a]]>", name),
		caseWithValue("a name with an entity", "name", "a&lt;", name),
		caseWithValue("a name with NUL", "name", "a\x00b", name),
		caseWithValue("a name with a bidirectional control character", "name", "a\u202eb", name),
		caseWithValue("a name with an invisible character", "name", "a\u200bb", name),
		caseWithValue("a name in capitals", "name", "Web", name),
		caseWithValue("a name with a space", "name", "we b", name),
		caseWithValue("a name with a line break", "name", "web\n", name),
		caseWithValue("a name with a path traversal", "name", "../web", name),
		caseWithValue("a name of two dots", "name", "..", name),
		caseWithValue("a name with a Cyrillic letter", "name", "wеb", name),
		caseWithValue("a long name", "name", strings.Repeat("a", 64), name),
		caseWithValue("a very long name", "name", strings.Repeat("a", 500_000), name),
		{what: "a name that is taken", sent: requestValues{"name": "on"}, says: `A VM named "on" exists in shop already.`, status: http.StatusConflict},

		{what: "a label in capitals", sent: requestValues{"labels.Env": "x"}, at: "labels", says: label},
		{what: "a label without a key", sent: requestValues{"labels": map[string]any{"": "x"}}, at: "labels", says: label},
		{what: "a label with markup", sent: requestValues{"labels": map[string]any{"<a>": "x"}}, at: "labels", says: label},
		{what: "a label like an option", sent: requestValues{"labels": map[string]any{"-rf": "x"}}, at: "labels", says: label},
		{what: "a label with NUL", sent: requestValues{"labels": map[string]any{"a\x00": "x"}}, at: "labels", says: label},
		{what: "a label with a long key", sent: requestValues{"labels": map[string]any{strings.Repeat("a", 64): "x"}}, at: "labels", says: label},
		{what: "a label's long value", sent: requestValues{"labels.a": strings.Repeat("x", 256)}, at: "labels", says: "must be one line of at most 255 bytes"},
		{what: "a label's value of two lines", sent: requestValues{"labels.a": "x\ny"}, at: "labels", says: "must be one line"},
		{what: "a label's value with NUL", sent: requestValues{"labels.a": "x\x00"}, at: "labels", says: "must be one line"},
		{what: "a label's value that turns", sent: requestValues{"labels.a": "x\u202ey"}, at: "labels", says: "invisible characters"},
		{what: "10,000 labels", sent: requestValues{"labels": many(10_000)}, at: "labels", says: "at most 64 labels."},

		caseWithValue("a long description", "description", strings.Repeat("x", fleet.MaxDescription+1), "A description is text of at most 4096 bytes."),
		caseWithValue("a description with NUL", "description", "x\x00", "A description is text of at most 4096 bytes."),
		caseWithValue("a description that turns", "description", "x\u202ey", "invisible characters"),
		caseWithValue("a description with a bell", "description", "x\ay", "invisible characters"),

		caseWithValue("a name that counts, of one VM", "name", "web-{n}", name),
		{what: "several of one name", sent: requestValues{"count": 3}, at: "name", says: "3 VMs need a counter in their name", operation: bulkCreate},
		{what: "several with two counters", sent: requestValues{"count": 3, "name": "a{n}-{n}"}, at: "name", says: "Use only one counter, as in web-{n}.", operation: bulkCreate},
		{what: "a counter that is open", sent: requestValues{"count": 3, "name": "a-{n"}, at: "name", says: "Write a counter as {n}, or as {nn} for", operation: bulkCreate},
		{what: "101 VMs", sent: requestValues{"count": 101, "name": "a-{n}"}, at: "count", says: "Create 1 to 100 VMs at once.", operation: bulkCreate},
		{what: "fewer VMs than none", sent: requestValues{"count": -1, "name": "a-{n}"}, at: "count", says: "Create 1 to 100 VMs at once.", operation: bulkCreate},
		{what: "a number before all", sent: requestValues{"count": 2, "first": -1, "name": "a-{n}"}, at: "first", says: "The first number must be between 0 and 1000000.", operation: bulkCreate},
		{what: "a number beyond all", sent: requestValues{"count": 2, "first": 1_000_001, "name": "a-{n}"}, at: "first", says: "The first number must be between 0 and", operation: bulkCreate},
		{what: "names that grow too long", sent: requestValues{"count": 2, "first": 9, "name": strings.Repeat("a", 62) + "{n}"}, at: "name", says: name, operation: bulkCreate},
		{what: "names with a command", sent: requestValues{"count": 2, "name": "a;{n}"}, at: "name", says: name, operation: bulkCreate},
		{what: "several with one address", sent: requestValues{"count": 2, "name": "a-{n}", "spec.nics[0].mac": "52:54:00:00:00:01"}, at: "spec.nics[0].mac", says: "Several VMs cannot have the same address.", operation: bulkCreate},
		{what: "several with one volume", sent: requestValues{"count": 2, "name": "a-{n}", "spec.disks[0].existing": true}, at: "spec.disks[0].existing", says: "Several VMs cannot have the same LUN.", operation: bulkCreate},

		caseWithValue("no project", "projectId", "", "Choose the project.", newVM),
		{what: "an unknown project", sent: requestValues{"projectId": fleet.NewID[fleet.ProjectID]()}, at: "-", says: "There is no such project", status: http.StatusNotFound, operation: newVM},
		caseWithValue("an unknown host", "hostId", fleet.NewID[fleet.HostID](), "There is no such host.", newVM),
		caseWithValue("a host with an invalid id", "hostId", "-rf\x00", "There is no such host.", newVM),
		caseWithValues("a project with an invalid id", "-", "UTF-8 without NUL", requestValues{"projectId": "a\x00"}, newVM).withStatus(http.StatusBadRequest),
	}
}

func (r *refusalPortal) hardwareCases() []refusal {
	image := func(v string) map[string]any { return map[string]any{"poolId": r.stored, "volume": v} }
	return []refusal{
		caseWithValue("no vCPUs", "spec.cpus", 0, "Enter 1 to 768 vCPUs."),
		caseWithValue("vCPUs below none", "spec.cpus", -2, "Enter 1 to 768 vCPUs."),
		caseWithValue("too many vCPUs", "spec.cpus", 769, "Enter 1 to 768 vCPUs."),
		caseWithValue("little memory", "spec.memoryMiB", 127, "Enter at least 128 MiB of memory"),
		caseWithValue("too much memory", "spec.memoryMiB", 16<<20+1, "at most 16 TiB"),
		caseWithValues("more memory than a host has", "hostId", "host-1 has 65,536 MiB of memory in all", requestValues{"spec.memoryMiB": 900 << 10}, newVM),
		caseWithValue("no firmware that is known", "spec.firmware", "coreboot", `The firmware must be "bios" or "uefi".`),
		caseWithValue("a firmware with markup", "spec.firmware", "bios'/>]]>", `The firmware must be "bios" or "uefi".`),
		caseWithValue("a power that is reported", "spec.power", "crashed", `The power state must be "running", "paused" or "stopped".`, newVM),
		caseWithValue("a new VM that is paused", "spec.power", "paused", "A new VM can only be running or stopped.", newVM),
		caseWithValue("a power that is edited", "spec.power", "running", "The power state cannot be edited.", editedVM),

		caseWithValues("disks that are words", "spec.disks[0]", "Give an object.", requestValues{"spec.disks": []string{"x"}}),
		{what: "25 disks", sent: requestValues{"spec.disks[24].sizeBytes": 1}, at: "spec.disks", says: "at most 24 disks."},
		{what: "10,000 disks", sent: requestValues{"spec.disks[9999].sizeBytes": 1}, at: "spec.disks", says: "at most 24 disks."},
		caseWithValue("a disk without a pool", "spec.disks[0].poolId", "", "Choose the pool that holds the disk.", editedVM),
		caseWithValues("a disk in an unknown pool", "hostId", "There is no such pool", requestValues{"spec.disks[0].poolId": fleet.NewID[fleet.PoolID]()}, newVM),
		caseWithValues("a disk in a pool that no host has", "hostId", "Pool blind is not assigned to host-1", requestValues{"spec.disks[1]": requestValues{"poolId": r.blind, "sizeBytes": 1 << 30}}, newVM),
		caseWithValues("a disk in a pool that the VM's host lacks", "spec.disks[1].poolId", "Pool far is not assigned to host-1.", requestValues{"spec.disks[1]": requestValues{"poolId": r.local, "sizeBytes": 1 << 30}}, editedVM),
		caseWithValue("a disk without a size", "spec.disks[0].sizeBytes", 0, "A disk needs a size above 0."),
		caseWithValue("a disk with a negative size", "spec.disks[0].sizeBytes", -1, "A disk needs a size above 0."),
		caseWithValue("a disk above the maximum size", "spec.disks[0].sizeBytes", 64<<40+1, "A disk has at most 64 TiB."),
		caseWithValues("a disk larger than the pool's free space", "hostId", "and the new disks may grow to 63 TiB", requestValues{"spec.disks[0].sizeBytes": 63 << 40}, newVM),
		caseWithValue("a volume name for a new disk", "spec.disks[0].volume", "x.qcow2", "Leave the volume's name out", newVM),
		caseWithValue("a volume with a path traversal", "spec.disks[0].volume", "../shadow", "Choose a volume of the pool"),
		caseWithValue("a volume with markup", "spec.disks[0].volume", "a'/>.qcow2", "Choose a volume of the pool"),
		caseWithValue("a volume with NUL", "spec.disks[0].volume", "a\x00.qcow2", "Choose a volume of the pool"),
		caseWithValue("a volume like an option", "spec.disks[0].volume", "-rf", "gets one"),
		caseWithValues("an image without a name", "spec.disks[0].image.volume", "Choose a volume of the pool", requestValues{"spec.disks[0].image": map[string]any{"poolId": r.stored}}),
		caseWithValues("an empty image", "spec.disks[0].image.volume", "Choose an image.", requestValues{"spec.disks[0].image": map[string]any{}}),
		caseWithValues("an image without a pool", "spec.disks[0].image.poolId", "Choose a pool.", requestValues{"spec.disks[0].image": map[string]any{"volume": "debian-12.qcow2"}}),
		caseWithValues("an image that climbs", "spec.disks[0].image.volume", "Choose a volume of the pool", requestValues{"spec.disks[0].image": image("../../etc/shadow")}),
		caseWithValues("an image that is none", "hostId", `Pool nfs has no volume "no-such.qcow2"`, requestValues{"spec.disks[0].image": image("no-such.qcow2")}, newVM),
		caseWithValues("an image that is a disc", "hostId", "Disks cannot be cloned from installer.iso", requestValues{"spec.disks[0].image": image("installer.iso")}, newVM),
		caseWithValue("an image of the library that is none", "spec.disks[0].imageId", "x'/>", "There is no such image."),
		caseWithValue("an image of the library that is gone", "spec.disks[0].imageId", fleet.NewID[fleet.ImageID](), "There is no such image, or none that is published", newVM),
		caseWithValue("a version of no image", "spec.disks[0].versionId", fleet.NewID[fleet.ImageVersionID](), "Choose a version of an image."),
		caseWithValue("a disk that stands on nothing", "spec.disks[0].overlay", true, "Only a disk from an image of the library can be a linked clone."),
		{what: "a volume as it is, without one", sent: requestValues{"spec.disks[0].existing": true, "spec.disks[0].sizeBytes": 0, "spec.disks[0].volume": ""}, at: "spec.disks[0].volume", says: "Choose the existing volume of the disk."},
		{what: "a volume as it is, from an image", sent: requestValues{"spec.disks[0].existing": true, "spec.disks[0].image": image("debian-12.qcow2")}, at: "spec.disks[0].image", says: "A disk on an existing volume cannot have an"},
		{what: "a volume as it is, with a size", sent: requestValues{"spec.disks[0].existing": true}, at: "spec.disks[0].sizeBytes", says: "A disk on an existing volume has the size"},

		{what: "17 NICs", sent: requestValues{"spec.nics[16].network": "default"}, at: "spec.nics", says: "at most 16 NICs."},
		{what: "10,000 NICs", sent: requestValues{"spec.nics[9999].network": "default"}, at: "spec.nics", says: "at most 16 NICs."},
		caseWithValues("a NIC on nothing", "spec.nics[0].network", "Choose a network.", requestValues{"spec.nics[0]": map[string]any{}}, editedVM),
		caseWithValues("a NIC on both", "spec.nics[0].network", "Choose one network or one bridge.", requestValues{"spec.nics[0].bridge": "br0"}, newVM),
		caseWithValues("a network with a path", "spec.nics[0].network", "is not a valid name of a libvirt network.", requestValues{"spec.nics[0]": map[string]any{"network": "a/b"}}),
		caseWithValues("a network with markup", "spec.nics[0].network", "is not a valid name of a libvirt network.", requestValues{"spec.nics[0]": map[string]any{"network": "a'/>"}}),
		caseWithValues("a network that turns", "spec.nics[0].network", "is not a valid name of a libvirt network.", requestValues{"spec.nics[0]": map[string]any{"network": "a\u202eb"}}),
		caseWithValues("a bridge like an option", "spec.nics[0].bridge", "is not a valid name of a bridge device.", requestValues{"spec.nics[0]": map[string]any{"bridge": "-rf"}}),
		caseWithValues("a bridge with a long name", "spec.nics[0].bridge", "is not a valid name of a bridge device.", requestValues{"spec.nics[0]": map[string]any{"bridge": "a-name-that-is-too-long"}}),
		caseWithValues("a network that is none", "spec.nics[0].networkId", "There is no such network.", requestValues{"spec.nics[0]": map[string]any{"networkId": "nonsense"}}),
		caseWithValues("a network that no host has", "hostId", `host-1 has no active network "elsewhere"`, requestValues{"spec.nics[0].network": "elsewhere"}, newVM),
		caseWithValues("a network that the host lacks", "spec.nics[0].network", `host-1 has no active network "elsewhere"`, requestValues{"spec.nics[0]": requestValues{"network": "elsewhere"}}, editedVM),
		caseWithValues("a bridge that no host has", "hostId", `host-1 has no bridge "br9"`, requestValues{"spec.nics[0]": requestValues{"bridge": "br9"}}, newVM),
		caseWithValue("a multicast address", "spec.nics[0].mac", "01:00:5e:00:00:01", "Enter a unicast MAC address such as 52:54:00:12:34:56."),
		caseWithValue("an address of 8 bytes", "spec.nics[0].mac", "52:54:00:12:34:56:78:9a", "Enter a unicast MAC address such as 52:54:00:12:34:56."),
		caseWithValue("an address with markup", "spec.nics[0].mac", "52:54:00:12:34:56'/>", "Enter a unicast MAC address such as 52:54:00:12:34:56."),
		{what: "one address on two NICs", sent: requestValues{"spec.nics[0].mac": "52:54:00:00:00:01", "spec.nics[1]": map[string]any{"network": "default", "mac": "52:54:00:00:00:01"}}, at: "spec.nics[1].mac", says: "Another NIC of this VM has the same address."},
		caseWithValue("another VM's address", "spec.nics[0].mac", "52:54:00:3a:01:12", "Another VM has this address already."),
		caseWithValues("a security group that is none", "spec.nics[0].securityGroups[0]", "There is no such security group.", requestValues{"spec.nics[0].securityGroups": []string{"x"}}),
		caseWithValue("a port group with markup", "spec.nics[0].portGroup", "a'/>", "A port group's name has 1–32"),
		caseWithValue("a port group of a network that has none", "spec.nics[0].portGroup", "lan", "The network has no port group lan"),
	}
}
