package domxml

import (
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// A launch policy that no spec can express is reported. A spec without encryption removes the element. If the kind
// equals the spec's, elements that an administrator added stay.
func TestLaunchPolicyThatSpecCannotExpressIsReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{ // kind, and text for a setting outside the spec
		`<launchSecurity type='sev'><policy>0x0003</policy></launchSecurity>`:         {"sev", ""},
		`<launchSecurity type='sev'><policy>0x000f</policy></launchSecurity>`:         {"sev-es", ""},
		`<launchSecurity type='sev'><policy>0x0001</policy></launchSecurity>`:         {"sev", "sev with the policy 0x0001"},
		`<launchSecurity type='sev-snp'><policy>0x000b0000</policy></launchSecurity>`: {"sev-snp", "sev-snp with the policy 0xb0000"},
		`<launchSecurity type='s390-pv'/>`:                                            {"", "by IBM Secure Execution"},
		``:                                                                            {"", ""},
	} {
		var x libvirtxml.Domain
		if err := x.Unmarshal("<domain type='kvm'>" + text + "</domain>"); err != nil {
			t.Fatal(err)
		}
		if kind, odd := EncryptionKindOf(&x); kind != want[0] || odd != want[1] {
			t.Errorf("%s is %q, %q", text, kind, odd)
		}
		var none libvirtxml.Domain
		if err := none.Unmarshal("<domain type='kvm'>" + text + "</domain>"); err != nil {
			t.Fatal(err)
		}
		writeMemoryEncryption(&none, fleet.VMSpec{})
		if none.LaunchSecurity != nil && text != "" {
			t.Errorf("%s was not removed", text)
		}
	}
	var own libvirtxml.Domain
	if err := own.Unmarshal(`<domain type='kvm'><launchSecurity type='sev'><policy>0x0003</policy><session>AAAC</session></launchSecurity></domain>`); err != nil {
		t.Fatal(err)
	}
	writeMemoryEncryption(&own, fleet.VMSpec{Security: fleet.VMSecurity{Confidential: "sev"}})
	if own.LaunchSecurity.SEV.Session != "AAAC" {
		t.Error("the administrator's session was lost")
	}
}
