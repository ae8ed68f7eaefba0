package fleet

import "fmt"

// ConfidentialKinds are the technologies by which a processor encrypts a guest's memory against its host.
var ConfidentialKinds = []Option{{"", "None"}, {"sev", "AMD SEV"}, {"sev-es", "AMD SEV-ES (registers, too)"}, {"sev-snp", "AMD SEV-SNP (and nothing put back)"}, {"tdx", "Intel TDX"}}

// LaunchInfo is the processor's report on the start of an encrypted guest. The guest's owner verifies it before giving
// secrets to the guest.
type LaunchInfo struct {
	Kind string `json:"kind"` // see ConfidentialKinds
	// Measurement: launch measurement with the nonce appended, base64; empty: this kind has none on the host
	Measurement string `json:"measurement,omitempty"`
	Policy      int64  `json:"policy"`             // policy bits of the guest's start
	APIMajor    int    `json:"apiMajor,omitempty"` // firmware version of the processor
	APIMinor    int    `json:"apiMinor,omitempty"`
	BuildID     int    `json:"buildId,omitempty"` // firmware build of the processor
}

// MaxMeasurement is the maximum length of a stored measurement.
const MaxMeasurement = 256

// Says returns the policy as text.
func (l LaunchInfo) Says() string {
	out := fmt.Sprintf("0x%04x", l.Policy)
	switch {
	case l.Kind != "sev" && l.Kind != "sev-es":
		return out
	case l.Policy&1 == 0:
		return out + ": its host may debug it, and so read its memory"
	}
	return out + ": nobody debugs it"
}

// NoMemorySnapshot returns why a snapshot cannot include the VM's memory; empty: it can.
func (s VMSpec) NoMemorySnapshot() string {
	if s.Security.Confidential == "" {
		return ""
	}
	return "The processor keeps this VM's memory from its host, so no snapshot can hold it. Take it without the memory."
}

// checkConfidential adds an error for each setting that does not work with encrypted memory.
func (s VMSpec) checkConfidential(c *Checks, prefix string) {
	kind := s.Security.Confidential
	if kind == "" {
		return
	}
	if s.Firmware != UEFI {
		c.Add(prefix+".security.confidential", "An encrypted guest starts by UEFI. Choose UEFI, or leave the encryption.")
	}
	if s.Security.SecureBoot {
		c.Add(prefix+".security.secureBoot", "libvirt has no firmware that boots securely in encrypted memory. Choose one of the two.")
	}
	if s.Memory.BalloonMiB > 0 {
		c.Add(prefix+".memory.balloonMiB", "Encrypted memory is not given back. Leave this, or the encryption.")
	}
	if s.Devices.Balloon == "reporting" {
		c.Add(prefix+".devices.balloon", "Encrypted memory is not given back. Choose another balloon, or leave the encryption.")
	}
	if len(s.Shares) > 0 {
		c.Add(prefix+".shares", "A folder of the host is shared through memory that the host reads. Leave it, or the encryption.")
	}
	if kind != "sev" && s.CPU.Max > s.CPUs {
		c.Add(prefix+".cpu.max", "The vCPUs are measured when the guest starts, and none can come later. Leave this, or choose AMD SEV.")
	}
}
