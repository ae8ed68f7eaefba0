package domxml

import (
	"path/filepath"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
	"quantix/internal/testkit/golden"
)

// Golden files show the definition of each field in definitionFieldCodecs, and reading the definition returns the spec.
func TestDefinitionFieldsRoundTrip(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]fleet.VMSpec{
		"cells":   {CPUs: 4, MemoryMiB: 1024, CPU: fleet.VMCPU{Max: 8}, NUMA: []fleet.VMNUMANode{{CPUs: "0-3", MemoryMiB: 768, Nodes: "0-1"}, {CPUs: "4-7", MemoryMiB: 256}}},
		"sev":     {CPUs: 1, MemoryMiB: 128, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: "sev"}},
		"sev-es":  {CPUs: 1, MemoryMiB: 128, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: "sev-es"}},
		"sev-snp": {CPUs: 1, MemoryMiB: 128, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: "sev-snp"}},
		"tdx":     {CPUs: 1, MemoryMiB: 128, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: "tdx"}},
		"devices": {CPUs: 1, MemoryMiB: 128, HostDevices: []fleet.VMHostDevice{
			{Device: "pci/0000:41:00.0"}, {Device: "usb/046d:c52b"}, {Device: "usb-port/1-2.3"}, {Device: "mdev/nvidia-63"},
		}},
	} {
		x := &libvirtxml.Domain{Type: "kvm", UUID: "01a206b5-2a62-7003-a101-340befa69b68", VCPU: &libvirtxml.DomainVCPU{Value: 1}, Devices: &libvirtxml.DomainDeviceList{}}
		editMemory(x, uint(spec.MemoryMiB)*1024)
		editCPUs(x, uint(spec.CPUs), uint(spec.CPU.Max))
		var fields []definitionField
		for _, p := range definitionFieldCodecs {
			if f, _ := fleet.FieldByName(p.field); !f.Default(spec) {
				p.write(x, spec)
				fields = append(fields, p)
			}
		}
		text, err := x.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Text(t, filepath.Join("testdata", "vm-"+name+".xml"), text+"\n")
		var again libvirtxml.Domain
		if err := again.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		for _, p := range fields {
			var is fleet.VMSpec
			odd := p.read(&again, &is)
			if f, _ := fleet.FieldByName(p.field); odd != "" || !f.Same(is, spec) {
				t.Errorf("%s: %s is read as %s %s", name, p.field, f.Words(is), odd)
			}
		}
	}
}
