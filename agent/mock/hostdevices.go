package mock

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// checkHostDevices refuses a start if a requested host device is missing. The caller holds h.mu.
func (h *Host) checkHostDevices(g *guest) error {
	for _, want := range g.persistent.spec.HostDevices {
		if err := h.checkHostDevice(want); err != nil {
			return err
		}
	}
	return nil
}

// checkHostDevice refuses a USB port without a device, and a mediated device type without capacity. The caller holds
// h.mu.
func (h *Host) checkHostDevice(want fleet.VMHostDevice) error {
	i := slices.IndexFunc(h.inventory.Devices, func(d fleet.HostDevice) bool { return d.Device == want.Device && !d.Empty })
	if port, ok := strings.CutPrefix(want.Device, "usb-port/"); ok && i < 0 {
		return hypervisor.RefuseEmptyUSBPort(port, h.options.Name)
	}
	kind, ok := strings.CutPrefix(want.Device, "mdev/")
	if !ok {
		return nil
	}
	used := 0
	for _, o := range h.guests {
		if o.isRunning() && hasHostDevice(o.live.spec.HostDevices, want) {
			used++
		}
	}
	if i < 0 || used >= h.inventory.Devices[i].Max {
		return hypervisor.RefuseUnavailableMdev(kind, h.options.Name)
	}
	return nil
}

// launchInfo returns the launch information of a guest with encrypted memory.
func launchInfo(g *guest) *fleet.LaunchInfo {
	out := fleet.LaunchInfo{Kind: g.live.spec.Security.Confidential, APIMajor: 1, APIMinor: 55, BuildID: 21}
	switch out.Kind {
	case "":
		return nil
	case "sev":
		out.Policy = 0x3
	case "sev-es":
		out.Policy = 0x7
	default:
		return &fleet.LaunchInfo{Kind: out.Kind, Policy: 0x30000} // only the guest may request the measurement
	}
	sum := sha256.Sum256([]byte(string(g.id) + g.startedAt.String()))
	out.Measurement = base64.StdEncoding.EncodeToString(append(sum[:], sum[:16]...))
	return &out
}

// missingEncryptionKinds returns the reasons why the processor cannot encrypt guest memory.
func (m machineModel) missingEncryptionKinds() (gaps []fleet.VMGap) {
	for _, k := range fleet.ConfidentialKinds[1:] {
		if m.vendor != "AuthenticAMD" || k.Value == "tdx" {
			gaps = append(gaps, fleet.VMGap{Field: "security.confidential", Value: k.Value, Why: "libvirt finds no " + strings.Split(k.Text, " (")[0] + ": the processor does not support it, or the firmware or the kernel disables it."})
		}
	}
	return gaps
}
