package fleet

import "fmt"

// ConfidentialKinds are the technologies by which a processor encrypts a guest's memory against its host.
var ConfidentialKinds = []Option{{"", "None"}, {"sev", "AMD SEV"}, {"sev-es", "AMD SEV-ES (registers too)"}, {"sev-snp", "AMD SEV-SNP (memory integrity)"}, {"tdx", "Intel TDX"}}

// LaunchInfo is the processor's report on the start of an encrypted guest. The guest's owner verifies it before giving
// secrets to the guest.
type LaunchInfo struct {
	Kind string `json:"kind"` // see ConfidentialKinds
	// Measurement is the launch measurement with the nonce appended, in base64; empty if the host reports no measurement
	// for this technology.
	Measurement string `json:"measurement,omitempty"`
	Policy      int64  `json:"policy"`             // policy bits of the guest's start
	APIMajor    int    `json:"apiMajor,omitempty"` // firmware version of the processor
	APIMinor    int    `json:"apiMinor,omitempty"`
	BuildID     int    `json:"buildId,omitempty"` // firmware build of the processor
}

// MaxMeasurement is the maximum length of a stored measurement.
const MaxMeasurement = 256

// PolicyText returns the policy as text.
func (l LaunchInfo) PolicyText() string {
	out := fmt.Sprintf("0x%04x", l.Policy)
	switch {
	case l.Kind != "sev" && l.Kind != "sev-es":
		return out
	case l.Policy&1 == 0:
		return out + ": the host may debug the guest and read its memory"
	}
	return out + ": debugging is disabled"
}

// WhyNoMemorySnapshot returns why a snapshot cannot include the VM's memory; empty: it can.
func (s VMSpec) WhyNoMemorySnapshot() string {
	if s.Security.Confidential == "" {
		return ""
	}
	return "The host cannot read this VM's encrypted memory, so no snapshot can include it. Take the snapshot without memory."
}

// checkConfidential adds an error for each setting that does not work with encrypted memory.
func (s VMSpec) checkConfidential(c *Checks, prefix string) {
	kind := s.Security.Confidential
	if kind == "" {
		return
	}
	if s.Firmware != UEFI {
		c.Add(prefix+".security.confidential", "Memory encryption needs UEFI. Choose UEFI, or disable the encryption.")
	}
	if s.Security.SecureBoot {
		c.Add(prefix+".security.secureBoot", "libvirt has no firmware that supports both Secure Boot and memory encryption. Choose one of the two.")
	}
	if s.Memory.BalloonMiB > 0 {
		c.Add(prefix+".memory.balloonMiB", "The balloon cannot reclaim encrypted memory. Remove this value, or disable the encryption.")
	}
	if s.Devices.Balloon == "reporting" {
		c.Add(prefix+".devices.balloon", "The guest cannot report free pages of encrypted memory. Choose another balloon, or disable the encryption.")
	}
	if len(s.Shares) > 0 {
		c.Add(prefix+".shares", "Shared folders need memory that the host can read. Remove the shared folders, or disable the encryption.")
	}
	if kind != "sev" && s.CPU.Max > s.CPUs {
		c.Add(prefix+".cpu.max", "The launch measurement covers the vCPUs, so none can be hot-plugged. Remove this value, or choose AMD SEV.")
	}
}
