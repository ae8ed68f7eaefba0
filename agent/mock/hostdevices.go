package mock

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"quantix/agent"
	"quantix/internal/fleet"
)

// hasDevices refuses a start without what the guest is to have of its host; h.mu is held.
func (h *Host) hasDevices(g *guest) error {
	for _, want := range g.def.spec.HostDevices {
		if err := h.hasDevice(want); err != nil {
			return err
		}
	}
	return nil
}

// hasDevice refuses a port where nothing is plugged in, and a type of which no mediated device can be made; h.mu is held.
func (h *Host) hasDevice(want fleet.VMHostDevice) error {
	i := slices.IndexFunc(h.inv.Devices, func(d fleet.HostDevice) bool { return d.Device == want.Device && !d.Empty })
	if port, ok := strings.CutPrefix(want.Device, "usb-port/"); ok && i < 0 {
		return agent.NothingPlugged(port, h.opts.Name)
	}
	kind, ok := strings.CutPrefix(want.Device, "mdev/")
	if !ok {
		return nil
	}
	used := 0
	for _, o := range h.guests {
		if o.on() && hasDevice(o.live.spec.HostDevices, want) {
			used++
		}
	}
	if i < 0 || used >= h.inv.Devices[i].Max {
		return agent.NoMdevFree(kind, h.opts.Name)
	}
	return nil
}

// launchOf is what the processor says of the guest's start, where it encrypts its memory.
func launchOf(g *guest) *fleet.LaunchInfo {
	out := fleet.LaunchInfo{Kind: g.live.spec.Security.Confidential, APIMajor: 1, APIMinor: 55, BuildID: 21}
	switch out.Kind {
	case "":
		return nil
	case "sev":
		out.Policy = 0x3
	case "sev-es":
		out.Policy = 0x7
	default:
		return &fleet.LaunchInfo{Kind: out.Kind, Policy: 0x30000} // its measurement is for the guest alone to ask for
	}
	sum := sha256.Sum256([]byte(string(g.id) + g.startedAt.String()))
	out.Measurement = base64.StdEncoding.EncodeToString(append(sum[:], sum[:16]...))
	return &out
}

// encrypts says how the machine's processor can keep guests' memory from their host, by why it cannot.
func (m machine) encrypts() (gaps []fleet.VMGap) {
	for _, k := range fleet.ConfidentialKinds[1:] {
		if m.vendor != "AuthenticAMD" || k.Value == "tdx" {
			gaps = append(gaps, fleet.VMGap{Field: "security.confidential", Value: k.Value, Why: "libvirt finds no " + strings.Split(k.Text, " (")[0] + ": the processor has none, or it is off in the firmware or in the kernel."})
		}
	}
	return gaps
}
