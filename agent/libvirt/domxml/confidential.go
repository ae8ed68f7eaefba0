package domxml

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// Launch policies of confidential guests. SEV: no debugging, no key sharing with other guests; SEV-ES also encrypts
// the registers. SEV-SNP: the reserved bit that is always set, and hyperthreading (SMT) allowed.
const (
	sevPolicy   = 0x3
	sevESBit    = 0x4
	sevESPolicy = sevPolicy | sevESBit
	snpPolicy   = 0x30000
)

// EncryptionKindOf returns the guest's kind of memory encryption. odd describes a setting that no spec can express.
func EncryptionKindOf(x *libvirtxml.Domain) (kind, odd string) {
	l := CopyOrZero(x.LaunchSecurity)
	other := func(policy uint64) string { return fmt.Sprintf("with the policy 0x%04x", policy) }
	switch {
	case l.SEV != nil:
		policy := uint64(*CopyOrZero(l.SEV.Policy))
		if kind = "sev"; policy&sevESBit != 0 {
			kind = "sev-es"
		}
		if policy&sevPolicy != sevPolicy {
			odd = kind + " " + other(policy)
		}
	case l.SEVSNP != nil:
		kind = "sev-snp"
		if policy := *CopyOrZero(l.SEVSNP.Policy); policy != snpPolicy {
			odd = kind + " " + other(policy)
		}
	case l.TDX != nil:
		kind = "tdx"
	case l.S390PV != nil:
		odd = "by IBM Secure Execution"
	}
	return kind, odd
}

// writeMemoryEncryption sets the spec's kind of memory encryption. If the kind is unchanged, elements that an
// administrator added, such as a session or a certificate, stay. No <locked> element is necessary: libvirt always locks
// the memory of a confidential guest.
func writeMemoryEncryption(x *libvirtxml.Domain, s fleet.VMSpec) {
	if kind, odd := EncryptionKindOf(x); kind == s.Security.Confidential && odd == "" {
		return
	}
	policy, es, snp := uint(sevPolicy), uint(sevESPolicy), uint64(snpPolicy)
	x.LaunchSecurity = map[string]*libvirtxml.DomainLaunchSecurity{
		"sev":     {SEV: &libvirtxml.DomainLaunchSecuritySEV{Policy: &policy}},
		"sev-es":  {SEV: &libvirtxml.DomainLaunchSecuritySEV{Policy: &es}},
		"sev-snp": {SEVSNP: &libvirtxml.DomainLaunchSecuritySEVSNP{Policy: &snp}},
		"tdx":     {TDX: &libvirtxml.DomainLaunchSecurityTDX{}},
	}[s.Security.Confidential]
}

func readMemoryEncryption(x *libvirtxml.Domain, s *fleet.VMSpec) (odd string) {
	s.Security.Confidential, odd = EncryptionKindOf(x)
	return odd
}
