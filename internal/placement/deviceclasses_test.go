package placement_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/placement"
)

func TestHostNeedsFreeDevicesOfClass(t *testing.T) {
	host := func(c placement.DeviceClass) placement.Host {
		return placement.Host{
			ID: "h1", Name: "h1", Phase: fleet.HostOnline, Capacity: fleet.HostCapacity{MemoryMiB: 4096},
			Firmwares: []fleet.Firmware{fleet.BIOS}, AgentFields: fleet.OptionalFieldNames(),
			DeviceClasses: map[fleet.DeviceClassID]placement.DeviceClass{"gpu": c},
		}
	}
	spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Firmware: fleet.BIOS, DeviceClasses: []fleet.VMDeviceClass{{ClassID: "gpu", ClassName: "gpu-a100", Count: 2}}}
	for says, c := range map[string]placement.DeviceClass{
		"":                              {Devices: 4, Used: 1, Unusable: 1},
		"h1 has no device of gpu-a100.": {},
		"h1 has no free device of gpu-a100: 2 of 2 are in use.":                                  {Devices: 2, Used: 2},
		"h1 has no free device of gpu-a100: 1 of 2 is in use, 1 of 2 is without an IOMMU group.": {Devices: 2, Used: 1, Unusable: 1},
		"h1 has 1 free device of gpu-a100, and the VM needs 2: 1 of 2 is in use.":                {Devices: 2, Used: 1},
	} {
		faults := placement.Faults(spec, host(c))
		switch {
		case says == "" && len(faults) == 0:
		case len(faults) != 1 || faults[0].Message != says || faults[0].Field != "spec.deviceClasses[0].classId":
			t.Errorf("%+v, want %q", faults, says)
		case strings.Contains(faults[0].Plain, "h1"):
			t.Errorf("the text for tenants names the host: %q", faults[0].Plain)
		}
	}
	old := host(placement.DeviceClass{Devices: 4})
	old.AgentFields = nil
	if faults := placement.Faults(spec, old); len(faults) != 1 || !strings.Contains(faults[0].Message, "too old") {
		t.Errorf("an old agent: %+v", faults)
	}
}
