package fleet_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// A template contains everything of a VM's spec except the VM's identity.
func TestWithoutIdentityRemovesIdentityOfVM(t *testing.T) {
	t.Parallel()
	on, off := true, false
	spec := fleet.VMSpec{
		Power: fleet.Running, CPUs: 2, MemoryMiB: 512, Firmware: fleet.UEFI, ISO: &fleet.Volref{PoolID: "p", Volume: "tools.iso"},
		Disks: []fleet.Disk{{PoolID: "p", Volume: "web-1.qcow2", SizeBytes: 7, Image: &fleet.Volref{PoolID: "p", Volume: "i"}, ImageID: "i", VersionID: "v", ImageSHA256: "s", Overlay: true}},
		NICs: []fleet.NIC{
			{NetworkID: "n", Network: "default", MAC: "52:54:00:00:00:01", SecurityGroups: []fleet.SecurityGroupID{"g"}, AntiSpoofing: &on},
			{NetworkID: "n", MAC: "52:54:00:00:00:02", PortGroup: "web", SecurityGroups: []fleet.SecurityGroupID{"g"}, AntiSpoofing: &on, DefaultGroups: true, DefaultAntiSpoofing: true},
			{NetworkID: "n", MAC: "52:54:00:00:00:03", AntiSpoofing: &off},
		},
		Security: fleet.VMSecurity{TPM: true}, Devices: fleet.VMDevices{Watchdog: "i6300esb"},
	}
	before, _ := json.Marshal(spec)
	got, _ := json.Marshal(spec.WithoutIdentity())
	const want = `{"power":"","cpus":2,"memoryMiB":512,"firmware":"uefi","disks":[{"poolId":"p","volume":"","sizeBytes":7}],` +
		`"nics":[{"networkId":"n","network":"default","mac":"","securityGroups":["g"],"antiSpoofing":true},{"networkId":"n","mac":"","portGroup":"web"},{"networkId":"n","mac":""}],` +
		`"security":{"tpm":true},"devices":{"watchdog":"i6300esb"}}`
	if string(got) != want {
		t.Errorf("a template keeps\n%s, not\n%s", got, want)
	}
	if after, _ := json.Marshal(spec); string(after) != string(before) {
		t.Error("Bare changed its receiver")
	}
}

func TestTemplateActionsRefusedWithReason(t *testing.T) {
	t.Parallel()
	now := time.Now()
	version := func(change func(*fleet.TemplateVersion)) fleet.TemplateVersion {
		v := fleet.TemplateVersion{Number: 2, Disks: []fleet.TemplateDisk{{State: fleet.CopyReady}, {State: fleet.CopyUnverified}}}
		change(&v)
		return v
	}
	complete := version(func(*fleet.TemplateVersion) {})
	coming := version(func(v *fleet.TemplateVersion) { v.Disks[1].State = fleet.CopyInProgress })
	lost := version(func(v *fleet.TemplateVersion) {
		v.Disks[0] = fleet.TemplateDisk{State: fleet.CopyMissing, Why: "It is gone."}
	})
	old := version(func(v *fleet.TemplateVersion) { v.DeprecatedAt = &now })
	linked := version(func(v *fleet.TemplateVersion) {
		v.VMs = []fleet.TemplateVM{{Name: "web-1", Linked: true}, {Name: "web-2"}}
		v.OthersLinked = 2
	})
	foreign := version(func(v *fleet.TemplateVersion) { v.Others, v.OthersLinked = 1, 1 })
	for _, c := range []struct {
		name    string
		version fleet.TemplateVersion
		act     fleet.Action
		why     string // empty: allowed
	}{
		{"complete", complete, fleet.ActNewVM, ""},
		{"complete", complete, fleet.ActDeprecate, ""},
		{"complete", complete, fleet.ActOffer, "The version is not deprecated."},
		{"complete", complete, fleet.ActDelete, ""},
		{"coming", coming, fleet.ActNewVM, "disk 2 is still being created"},
		{"coming", coming, fleet.ActDelete, "version 2 is still being created"},
		{"lost", lost, fleet.ActNewVM, "disk 1 cannot be read now. It is gone."},
		{"lost", lost, fleet.ActDelete, ""},
		{"deprecated", old, fleet.ActNewVM, "deprecated"},
		{"deprecated", old, fleet.ActDeprecate, "The version is already deprecated."},
		{"deprecated", old, fleet.ActOffer, ""},
		{"linked", linked, fleet.ActDelete, "VM web-1, 2 VMs of other projects"},
		{"linked", linked, fleet.ActDeprecate, ""},
		{"linked elsewhere", foreign, fleet.ActDelete, "of other projects are backed by version 2 and would be broken: 1 VM"},
		{"unknown action", complete, fleet.ActStart, "no action"},
	} {
		ok, why := c.version.Allows(c.act)
		if ok != (c.why == "") || !strings.Contains(why, c.why) || strings.Contains(why, "web-2") {
			t.Errorf("%s, %s: %v %q", c.name, c.act, ok, why)
		}
	}
	for _, c := range []struct {
		name     string
		versions []fleet.TemplateVersion
		act      fleet.Action
		why      string
	}{
		{"none", nil, fleet.ActNewVM, "has no version"},
		{"none", nil, fleet.ActDelete, ""},
		{"all deprecated", []fleet.TemplateVersion{old}, fleet.ActNewVM, "All versions are deprecated."},
		{"the newest deprecated", []fleet.TemplateVersion{old, complete}, fleet.ActNewVM, ""},
		{"an old version with linked clones", []fleet.TemplateVersion{complete, linked}, fleet.ActDelete, "web-1"},
		{"the newest coming", []fleet.TemplateVersion{coming, complete}, fleet.ActNewVM, "being created"},
	} {
		if ok, why := (fleet.TemplateView{Versions: c.versions}).Allows(c.act); ok != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s, %s: %v %q", c.name, c.act, ok, why)
		}
	}
}
