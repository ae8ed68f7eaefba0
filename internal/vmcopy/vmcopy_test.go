package vmcopy_test

import (
	"encoding/json"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
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
	got, _ := json.Marshal(vmcopy.WithoutIdentity(spec))
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
