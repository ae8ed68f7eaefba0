package web_test

import (
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// sourceCases returns cases about templates, VMs, snapshots and files as sources of new VMs.
func (r *refusalPortal) sourceCases() []refusal {
	c := func(what, at, says string, from requestValues) refusal {
		return refusal{what: what, sent: requestValues{"from": from}, at: at, says: says, operation: newVM}
	}
	return []refusal{
		c("from nothing", "from", "Name a template, a VM or an appliance.", requestValues{}),
		c("from two things", "from", "Name a template, a VM or an appliance.", requestValues{"templateId": fleet.NewID[string](), "vmId": r.off}),
		c("from a template that is none", "from.templateId", "There is no such template", requestValues{"templateId": fleet.NewID[string]()}),
		c("from a template of a strange name", "from.templateId", "There is no such template", requestValues{"templateId": "x'/>\x00"}),
		c("from a VM that is none", "from.vmId", "There is no such VM.", requestValues{"vmId": fleet.NewID[string]()}),
		c("from a VM of a strange name", "from.vmId", "There is no such VM.", requestValues{"vmId": "-rf\x00"}),
		c("from a snapshot of no VM", "from.snapshotId", "Name the VM that has the snapshot.", requestValues{"snapshotId": "s1", "templateId": fleet.NewID[string]()}),
		c("from a snapshot that is none", "-", "snapshot", requestValues{"vmId": r.off, "snapshotId": fleet.NewID[string]()}).withStatus(http.StatusNotFound),
		c("from a file that is none", "-", "no-such.ova", requestValues{"appliance": requestValues{"poolId": r.stored, "volume": "no-such.ova"}}).withStatus(http.StatusNotFound),
		c("from a file that climbs", "-", ".", requestValues{"appliance": requestValues{"poolId": r.stored, "volume": "../../x.ova"}}).withStatus(http.StatusNotFound),
		c("from a file that is no appliance", "-", "is not an appliance", requestValues{"appliance": requestValues{"poolId": r.stored, "volume": "debian-12.qcow2"}}).withStatus(http.StatusNotFound),
		caseWithValues("a clone on another host", "hostId", "Disks are copied on the host of the VM.", requestValues{"from": requestValues{"vmId": r.off}, "hostId": r.other}, newVM),
		caseWithValues("a linked clone of a VM", "spec.disks[0].overlay", "A clone of a VM is a full copy", requestValues{"from": requestValues{"vmId": r.off}, "spec.disks[0].overlay": true}, newVM),
		caseWithValues("a clone with more disks", "spec.disks", "has 1 disks, and each is copied", requestValues{"from": requestValues{"vmId": r.off}, "spec.disks[1].sizeBytes": 1}, newVM),
		caseWithValues("a clone with an image", "spec.disks[0].image", "This disk is a copy of disk 1 of off and cannot have another source.", requestValues{"from": requestValues{"vmId": r.off}, "spec.disks[0].image": r.volumeRef("debian-12.qcow2")}, newVM),
	}
}

// firstBootCases returns cases about the fields of first-boot data. Package firstboot tests the rules themselves.
func (r *refusalPortal) firstBootCases() []refusal {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEbZLH8iO5fLDpZlZYlPcv0fbU0iFxmrX5vYVyOTuAmk ann@example.org"
	c := func(what, at, says string, boot any) refusal {
		return refusal{what: what, sent: requestValues{"firstBoot": boot}, at: "firstBoot." + at, says: says, operation: newVM}
	}
	cloud := func(text string) requestValues {
		return requestValues{"kind": "cloud-config", "userData": "#cloud-config\n" + text}
	}
	form := func(v requestValues) requestValues { return requestValues{"kind": "cloud-init", "cloudInit": v} }
	user := func(v requestValues) requestValues { return form(requestValues{"users": []any{v}}) }
	return []refusal{
		caseWithValues("a first boot in the spec", "spec.firstBoot", "First-boot data is separate from the VM's other values", requestValues{"spec.firstBoot": requestValues{"kind": "cloud-init", "number": 1}}),
		c("a first boot of no kind that is", "kind", "no such kind", requestValues{"kind": "kickstart"}),
		c("a first boot and a customization", "customizationId", "not both", requestValues{"kind": "cloud-init", "cloudInit": requestValues{}, "customizationId": fleet.NewID[string]()}),
		c("a customization that is none", "customizationId", "no such customization", requestValues{"customizationId": fleet.NewID[string]()}),
		c("user-data with an anchor", "userData", "Line 2: Anchors", cloud("packages: &a [b]\n")),
		c("user-data with exponential aliases", "userData", "Anchors", cloud("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n")),
		c("user-data with a tag", "userData", "The tag", cloud("packages: !!python/object/apply:os.system [id]\n")),
		c("user-data with a merge key", "userData", "Merge keys", cloud("ntp:\n  <<: {enabled: true}\n")),
		c("user-data with deep nesting", "userData", "Line", cloud("runcmd: "+strings.Repeat("[", 60_000)+"\n")),
		c("user-data with too many values", "userData", "20000 values", cloud("runcmd: ["+strings.Repeat("a,", 30_000)+"]\n")),
		c("too large user-data", "userData", "128 KiB", cloud("# "+strings.Repeat("a", fleet.MaxUserData))),
		c("a script as cloud-config user-data", "userData", "Line 1", requestValues{"kind": "cloud-config", "userData": "#!/bin/sh\nid\n"}),
		c("user-data with NUL", "userData", "no text", cloud("a: \x00\n")),
		c("user-data with an unknown key", "userData", "cloud-init knows no package", cloud("package: [a]\n")),
		c("a network config of an unknown version", "networkConfig", "which version", requestValues{"kind": "cloud-config", "userData": "#cloud-config\npackages: [a]\n", "networkConfig": "version: 3\n"}),
		c("YAML as Ignition", "userData", "no JSON", requestValues{"kind": "ignition", "userData": "variant: fcos\n"}),
		c("an answer file with an entity", "userData", "document type", requestValues{"kind": "sysprep", "userData": `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><unattend/>`}),
		c("a hostname like an option", "cloudInit.hostname", "hostname has", form(requestValues{"hostname": "-rf"})),
		c("a path as a time zone", "cloudInit.timezone", "time zone", form(requestValues{"timezone": "../../etc/passwd"})),
		c("a user with a colon", "cloudInit.users[0].name", "user's name", user(requestValues{"name": "a:b", "sshKeys": []string{key}})),
		c("a private key as an SSH key", "cloudInit.users[0].sshKeys[0]", "no public key", user(requestValues{"name": "anna", "sshKeys": []string{"-----BEGIN OPENSSH PRIVATE KEY-----"}})),
		c("an SSH key with a command", "cloudInit.users[0].sshKeys[0]", "without options", user(requestValues{"name": "anna", "sshKeys": []string{`command="id" ` + key}})),
		c("a file with a path traversal", "cloudInit.files[0].path", "absolute path", form(requestValues{"files": []any{requestValues{"path": "/etc/../x", "content": ""}}})),
		c("a package with a command", "cloudInit.packages[0]", "no name of a package", form(requestValues{"packages": []string{"nginx; id"}})),
		c("an address without a prefix", "cloudInit.network[0].addresses[0]", "with its prefix", form(requestValues{"network": []any{requestValues{"addresses": []string{"192.0.2.10"}}}})),
		c("more NICs than the VM has", "cloudInit.network", "The network settings have more NICs than the VM", form(requestValues{"users": []any{requestValues{"name": "anna", "sshKeys": []string{key}}}, "network": []any{requestValues{}, requestValues{}}})),
	}
}

// restrictedValues maps fields that only infrastructure administrators may set to valid values. Fields whose kind
// determines a valid value are omitted.
var restrictedValues = map[string]any{"cpu.pinned": "0", "memory.nodes": "0", "boot.cmdline": "quiet", "memory.hugePageKiB": 2048, "placement.tolerations": "gpu", "cpu.reserved": 10}

// tenantCases returns cases about values that only infrastructure administrators may set, sent by a tenant.
func (r *refusalPortal) tenantCases(t *testing.T) (out []refusal) {
	t.Helper()
	for _, f := range fleet.OptionalFields() {
		if f.ReservedReason == "" || f.ReservedPaths != nil {
			continue
		}
		value, known := restrictedValues[f.Name]
		switch {
		case known:
		case f.Input.Kind == fleet.InputFlag:
			value = true
		case f.Input.Kind == fleet.InputChoice:
			value = f.Input.Options[1].Value
		case f.Input.Kind == fleet.InputFile:
			value = r.volumeRef("vmlinuz")
		case f.Name == "hostDevices":
			value = []any{requestValues{"device": "usb/046d:c52b"}}
		case f.Name == "shares":
			value = []any{requestValues{"tag": "src", "folder": r.volumeRef("src")}}
		default:
			t.Fatalf("%s: add a valid value to restrictedValues", f.Name)
		}
		s, says := requestValues{"spec." + f.Name: value}, "Only those who may change infrastructure may choose "+f.Type
		switch f.Name {
		case "boot.initrd", "boot.cmdline":
			s["spec.boot.kernel"] = r.volumeRef("vmlinuz")
		case "shares":
			s["spec.memory.shared"] = true
		}
		out = append(out,
			refusal{what: "a tenant's " + f.Name, sent: s, at: "spec." + f.Name, says: says, operation: tenantCreate},
			refusal{what: "a tenant's edit of " + f.Name, sent: s, at: "spec." + f.Name, says: says, operation: tenantEdit})
	}
	nodes := []any{requestValues{"cpus": "0", "memoryMiB": 512, "nodes": "0"}, requestValues{"cpus": "1", "memoryMiB": 512}}
	return append(out,
		caseWithValues("a tenant's host nodes of a NUMA node", "spec.numa[0].nodes", "Only those who may change infrastructure may choose this value of NUMA nodes", requestValues{"spec.numa": nodes}, tenantCreate),
		caseWithValues("a tenant's edit of nodes", "spec.numa[0].nodes", "Only those who may change infrastructure may choose this value of NUMA nodes", requestValues{"spec.numa": nodes}, tenantEdit),
		caseWithValues("a tenant's CPU shares", "spec.cpu.shares", "Only those who may change infrastructure may choose this value of CPU shares: more than 1024", requestValues{"spec.cpu.shares": 1025}, tenantCreate),
		caseWithValues("a tenant's edit of CPU shares", "spec.cpu.shares", "Only those who may change infrastructure may choose this value of CPU shares: more than 1024", requestValues{"spec.cpu.shares": 1025}, tenantEdit),
		caseWithValues("a tenant's rule of hosts", "spec.rules[0].of", "Only people who can see hosts may name hosts in a rule.", requestValues{"spec.rules": []any{requestValues{"of": "host", "name": "host-1"}}}, tenantCreate),
		caseWithValues("a tenant's edit to a rule of hosts", "spec.rules[0].of", "Only people who can see hosts may name hosts in a rule.", requestValues{"spec.rules": []any{requestValues{"of": "hostLabels", "name": "ssd"}}}, tenantEdit),
		caseWithValue("a tenant's overcommit", "overcommit", true, "Only those who may change infrastructure may overcommit", tenantCreate),
		caseWithValue("a tenant's guest with other addresses", "spec.nics[0].antiSpoofing", false, "Only those who may change infrastructure may turn anti-spoofing off", tenantCreate),
		caseWithValues("a tenant's bridge", "spec.nics[0].bridge", "br0 is not published to this project.", requestValues{"spec.nics[0]": requestValues{"bridge": "br0"}}, tenantCreate),
		caseWithValues("a tenant's NIC on a network that no host has", "hostId", `2 hosts: no active network "elsewhere".`, requestValues{"spec.nics[0].network": "elsewhere"}, tenantCreate),
		caseWithValues("a tenant's unpublished volume", "hostId", `2 hosts: no volume "secret.qcow2" in pool nfs.`, requestValues{"spec.disks[0].image": r.volumeRef("secret.qcow2")}, tenantCreate),
		caseWithValues("a tenant's unpublished disc", "hostId", `2 hosts: no volume "secret.iso" in pool nfs.`, requestValues{"spec.iso": r.volumeRef("secret.iso")}, tenantCreate),
		caseWithValues("a tenant's volume as it is", "spec.disks[0].existing", "Pool nfs makes a volume for each disk.", requestValues{"spec.disks[0]": requestValues{"poolId": r.stored, "volume": "lun-1", "existing": true}}, tenantCreate),
		caseWithValues("a tenant's other project", "-", "There is no such object, or you may not see it.", requestValues{"projectId": fleet.NewID[string]()}, tenantCreate).withStatus(http.StatusNotFound),
	)
}

// editCases returns cases about changes that an edit may never make, or not while the VM is running.
func (r *refusalPortal) editCases() []refusal {
	return []refusal{
		caseWithValue("a disk that shrinks", "spec.disks[0].sizeBytes", 1<<30, "Disks cannot shrink", editedVM),
		caseWithValue("another volume", "spec.disks[0].volume", "other.qcow2", "The VM has no disk of this name.", editedVM),
		caseWithValues("a disk twice", "spec.disks[1].volume", "Disk 1 is this volume already.", requestValues{"spec.disks[1]": requestValues{"poolId": r.stored, "volume": "off-1.qcow2", "sizeBytes": 2 << 30}}, editedVM),
		caseWithValue("another firmware while it is on", "spec.firmware", "bios", "This can be changed only while the VM is off", editedRunningVM),
		caseWithValues("a disk that is encrypted afterwards", "spec.disks[0]", "This cannot be changed by an edit", requestValues{"spec.disks[0].encryption": "luks"}, editedVM),
		caseWithValue("a number that is a word", "spec.cpus", "two", "Enter a whole number."),
		caseWithValue("a number that is broken", "spec.cpus", 1.5, "Enter a whole number."),
		caseWithValue("a number that is endless", "spec.memoryMiB", 1e30, "The field cannot hold this value."),
		caseWithValue("a list that is none", "spec.nics", "all", "Give a list."),
		caseWithValue("a label that is a list", "labels.a", []int{1}, "Give a text."),
		caseWithValue("a field that is none", "spec.cpuz", 2, "There is no such field here"),
		caseWithValue("a disk's field that is none", "spec.disks[0].path", "/etc/shadow", "There is no such field here"),
	}
}
