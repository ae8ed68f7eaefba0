package bmc_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/fleet"
)

func TestSpecIsChecked(t *testing.T) {
	t.Parallel()
	good := bmc.Spec{Address: " https://10.0.8.11/ ", User: "root", Fingerprint: strings.Repeat("AB:", 31) + "AB"}.Normalize()
	if good.Address != "https://10.0.8.11" || good.Trust != bmc.TrustPin || good.Fingerprint != strings.Repeat("ab", 32) {
		t.Errorf("the normalized spec is %+v", good)
	}
	for field, change := range map[string]func(*bmc.Spec){
		"":            func(*bmc.Spec) {},
		"address":     func(s *bmc.Spec) { s.Address = "http://10.0.8.11" },
		"user":        func(s *bmc.Spec) { s.User = "a:b" },
		"trust":       func(s *bmc.Spec) { s.Trust = "none" },
		"fingerprint": func(s *bmc.Spec) { s.Fingerprint = "abc" },
		"ca":          func(s *bmc.Spec) { s.Trust, s.Fingerprint, s.CA = bmc.TrustCA, "", "-----BEGIN CERTIFICATE-----" },
		"systemId":    func(s *bmc.Spec) { s.SystemID = "../Managers/1" },
	} {
		s := good
		change(&s)
		var c fleet.Checks
		s.Check(&c)
		if err := c.Err(); (err == nil) != (field == "") || err != nil && !strings.HasPrefix(fieldOf(err), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, address := range []string{"", "10.0.8.11", "https://u:p@10.0.8.11", "https://10.0.8.11/redfish", "https://10.0.8.11?x", "https://10.0.8.11#x", "https://"} {
		if _, why := (bmc.Spec{Address: address}).URL(); why == "" {
			t.Errorf("%q is accepted", address)
		}
	}
}

func fieldOf(err error) string {
	if e, ok := err.(*fleet.Error); ok && len(e.Fields) == 1 { //nolint:errorlint // returned unwrapped
		return e.Fields[0].Field
	}
	return "?"
}

func TestOldReadingCountsAsUnknown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	recent, old := now.Add(-time.Minute), now.Add(-bmc.FreshFor-time.Second)
	r := &bmc.Reading{Power: bmc.Off}
	if bmc.PowerAt(r, &recent, now) != bmc.Off || bmc.PowerAt(r, &old, now) != bmc.Unknown || bmc.PowerAt(nil, nil, now) != bmc.Unknown {
		t.Error("the power state does not depend on the age of the reading")
	}
}

func TestUUIDsMatchInBothByteOrders(t *testing.T) {
	t.Parallel()
	const of = "4c4c4544-0051-3510-8052-b4c04f4d3233"
	for other, same := range map[string]bool{of: true, strings.ToUpper(of): true, "44454c4c-5100-1035-8052-b4c04f4d3233": true, "": true, "x": true, "4c4c4544-0051-3510-8052-b4c04f4d3234": false} {
		if bmc.SameMachine(of, other) != same {
			t.Errorf("%q: %v", other, !same)
		}
	}
}
