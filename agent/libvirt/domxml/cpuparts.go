package domxml

import (
	"path"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// cpuPeriodMicroseconds is the period of the vCPU limit, in microseconds.
const cpuPeriodMicroseconds = 100_000

// writeCPUFeatures writes the CPU features of the spec in their order. All other features follow from the CPU model.
func writeCPUFeatures(x *libvirtxml.Domain, s fleet.VMSpec) {
	if x.CPU == nil {
		x.CPU = &libvirtxml.DomainCPU{}
	}
	x.CPU.Features = nil
	for f := range strings.FieldsSeq(s.CPU.Features) {
		policy := "require"
		if f[0] == '-' {
			policy = "disable"
		}
		x.CPU.Features = append(x.CPU.Features, libvirtxml.DomainCPUFeature{Policy: policy, Name: f[1:]})
	}
}

func cpuFeaturesOf(x *libvirtxml.Domain) string {
	if x.CPU == nil {
		return ""
	}
	var all []string
	for _, f := range x.CPU.Features {
		switch f.Policy {
		case "disable", "forbid":
			all = append(all, "-"+f.Name)
		default:
			all = append(all, "+"+f.Name)
		}
	}
	return strings.Join(all, " ")
}

// IsSameCPU reports whether both definitions describe the same CPU.
func IsSameCPU(live, kept *libvirtxml.Domain) bool {
	var l, k fleet.VMSpec
	return cpuFeaturesOf(live) == cpuFeaturesOf(kept) && readCPUModel(live, &l) == readCPUModel(kept, &k) && l.CPU.Model == k.CPU.Model
}

// setCPUTune sets the CPU tuning of the definition, or removes the element if t is empty.
func setCPUTune(x *libvirtxml.Domain, t *libvirtxml.DomainCPUTune) {
	if x.CPUTune = t; t.Shares == nil && t.Period == nil && t.Quota == nil && t.GlobalPeriod == nil && t.GlobalQuota == nil && t.EmulatorPeriod == nil &&
		t.EmulatorQuota == nil && t.IOThreadPeriod == nil && t.IOThreadQuota == nil && len(t.VCPUPin) == 0 && t.EmulatorPin == nil && len(t.IOThreadPin) == 0 &&
		len(t.VCPUSched) == 0 && t.EmulatorSched == nil && len(t.IOThreadSched) == 0 && len(t.CacheTune) == 0 && len(t.MemoryTune) == 0 {
		x.CPUTune = nil
	}
}

func readCPULimit(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	t := CopyOrZero(x.CPUTune)
	if t.Quota == nil || t.Quota.Value <= 0 {
		return ""
	}
	period := int64(cpuPeriodMicroseconds)
	if t.Period != nil && t.Period.Value > 0 {
		period = int64(t.Period.Value)
	}
	s.CPU.Limit = int(min(max(t.Quota.Value*100/period, 1), 100))
	return ""
}

// writeSecureBoot lets libvirt choose the firmware and selects another file of UEFI variables, because variables
// created without secure boot lack the keys for secure boot.
func writeSecureBoot(x *libvirtxml.Domain, s fleet.VMSpec) {
	if firmwareOf(x) != fleet.UEFI || HasSecureBoot(x) == s.Security.SecureBoot {
		return
	}
	on, file := "no", x.UUID+PlainVarsSuffix
	if s.Security.SecureBoot {
		on, file = "yes", x.UUID+SecureVarsSuffix
	}
	x.OS.Firmware, x.OS.Loader = "efi", nil
	x.OS.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
		{Enabled: on, Name: "enrolled-keys"}, {Enabled: on, Name: "secure-boot"},
	}}
	x.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: path.Join(NVRAMDir, file)}
	if x.Features == nil {
		x.Features = &libvirtxml.DomainFeatureList{}
	}
	if x.Features.SMM = nil; s.Security.SecureBoot {
		x.Features.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
}

// Suffixes of the files with a guest's UEFI variables, without and with secure boot.
const (
	PlainVarsSuffix  = "_VARS.fd"
	SecureVarsSuffix = "_SECURE_VARS.fd"
)

// HasSecureBoot reports whether the definition uses secure boot.
func HasSecureBoot(x *libvirtxml.Domain) bool {
	if x.OS == nil {
		return false
	}
	if x.OS.Loader != nil && x.OS.Loader.Secure == "yes" {
		return true
	}
	return x.OS.FirmwareInfo != nil && slices.ContainsFunc(x.OS.FirmwareInfo.Features, func(f libvirtxml.DomainOSFirmwareFeature) bool {
		return f.Name == "secure-boot" && f.Enabled == "yes"
	})
}
