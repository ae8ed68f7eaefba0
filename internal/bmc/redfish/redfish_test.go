package redfish_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/bmc/redfish"
	"quantix/internal/testkit/mockbmc"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func start(t *testing.T, layout mockbmc.Layout) (*mockbmc.BMC, *redfish.Connector, redfish.Target) {
	t.Helper()
	m, err := mockbmc.Start("127.0.0.1:0", layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	to := redfish.Target{Spec: bmc.Spec{Address: m.Address, User: mockbmc.User, Trust: bmc.TrustPin, Fingerprint: m.Fingerprint()}, Password: mockbmc.Password}
	return m, redfish.New(loopback), to
}

func wantError(t *testing.T, err error, words string) *redfish.Error {
	t.Helper()
	e, ok := errors.AsType[*redfish.Error](err)
	if !ok || !strings.Contains(e.Text, words) {
		t.Fatalf("the error is %v, want %q", err, words)
	}
	if strings.Contains(e.Text, mockbmc.Password) || len(e.Text) > 2*bmc.MaxText || strings.ContainsFunc(e.Text, func(r rune) bool { return r < ' ' }) {
		t.Errorf("the error is not fit for a page: %q", e.Text)
	}
	return e
}

func TestReadReportsVendorsSystems(t *testing.T) {
	t.Parallel()
	want := map[mockbmc.Layout]bmc.Reading{
		mockbmc.IDRAC:   {Power: bmc.On, Maker: "Dell Inc.", Model: "PowerEdge R650", Health: "OK", SystemID: "System.Embedded.1", UUID: mockbmc.UUID},
		mockbmc.ILO:     {Power: bmc.On, Maker: "HPE", Model: "ProLiant DL380 Gen10", Health: "Warning", SystemID: "1", UUID: mockbmc.UUID},
		mockbmc.OpenBMC: {Power: bmc.On, Maker: "Supermicro", Model: "X13SCL-IF", Health: "OK", SystemID: "system", UUID: mockbmc.UUID},
	}
	for _, layout := range mockbmc.Layouts {
		_, c, to := start(t, layout)
		if got, err := c.Read(t.Context(), to); err != nil || got != want[layout] {
			t.Errorf("%s: %+v, %v", layout, got, err)
		}
	}
}

func TestCommandsReachEachVendor(t *testing.T) {
	t.Parallel()
	for _, layout := range mockbmc.Layouts {
		m, c, to := start(t, layout)
		send := func(command bmc.Command, unchanged bool, power string) {
			t.Helper()
			if same, err := c.Send(t.Context(), to, command); err != nil || same != unchanged || m.Power() != power {
				t.Errorf("%s: %s leads to %s, unchanged %v, %v", layout, command, m.Power(), same, err)
			}
		}
		send(bmc.PowerOn, true, "On")
		send(bmc.Reset, false, "On")
		send(bmc.PowerOff, false, "Off")
		send(bmc.PowerOff, true, "Off")
		_, err := c.Send(t.Context(), to, bmc.Reset)
		wantError(t, err, "is off, so it cannot be reset")
		send(bmc.PowerOn, false, "On")
		if got := m.Resets(); !slices.Equal(got, []string{"ForceRestart", "ForceOff", "On"}) {
			t.Errorf("%s got the commands %v", layout, got)
		}
	}
}

func TestSystemIsChosenByID(t *testing.T) {
	t.Parallel()
	_, c, to := start(t, mockbmc.Blades)
	_, err := c.Read(t.Context(), to)
	wantError(t, err, "several systems")
	to.SystemID = "node2"
	if r, err := c.Read(t.Context(), to); err != nil || r.SystemID != "node2" {
		t.Errorf("read %+v, %v", r, err)
	}
	to.SystemID = "node7"
	_, err = c.Read(t.Context(), to)
	wantError(t, err, "no system node7, but")
}

// TestFaultyAnswersEndInErrors checks that each fault of a BMC ends a read with the BMC's own words, in time.
func TestFaultyAnswersEndInErrors(t *testing.T) {
	t.Parallel()
	for mode, words := range map[mockbmc.Mode]string{
		mockbmc.Hangs: "did not answer in time", mockbmc.Drips: "did not answer in time", mockbmc.Huge: "more than 1024 KiB", mockbmc.Garbage: "not Redfish",
		mockbmc.Empty: "without a system", mockbmc.WrongTypes: "answered with a number", mockbmc.Redirects: "redirect", mockbmc.Forgets: "refused the user name or the password",
	} {
		m, c, to := start(t, mockbmc.IDRAC)
		c.SetLimit(2 * time.Second)
		m.SetMode(mode)
		begin := time.Now()
		_, err := c.Read(t.Context(), to)
		if e := wantError(t, err, words); e.InDoubt || time.Since(begin) > 20*time.Second {
			t.Errorf("%s: %+v after %s", mode, e, time.Since(begin))
		}
	}
}

// TestCommandsInDoubt checks which errors of a command mean that the BMC may have executed it.
func TestCommandsInDoubt(t *testing.T) {
	t.Parallel()
	for mode, want := range map[mockbmc.Mode]struct {
		words   string
		inDoubt bool
	}{
		mockbmc.HangsReset: {"did not answer in time", true}, mockbmc.DropsReset: {"could not be reached", true}, mockbmc.Breaks: {"Internal error 0x1f", true},
		mockbmc.Refuses: {"locked by another console", false}, mockbmc.OtherLinks: {"refers to another machine", false}, mockbmc.Unsupported: {"does not support ForceRestart", false},
	} {
		m, c, to := start(t, mockbmc.ILO)
		c.SetLimit(2 * time.Second)
		m.SetMode(mode)
		_, err := c.Send(t.Context(), to, bmc.Reset)
		if e := wantError(t, err, want.words); e.InDoubt != want.inDoubt {
			t.Errorf("%s: %+v", mode, e)
		}
		if n := len(m.Resets()); n > 1 {
			t.Errorf("%s: the command was sent %d times", mode, n)
		}
	}
}

func TestOddWordsAreCleaned(t *testing.T) {
	t.Parallel()
	m, c, to := start(t, mockbmc.IDRAC)
	m.SetMode(mockbmc.OddWords)
	r, err := c.Read(t.Context(), to)
	if err != nil || len(r.Model) > bmc.MaxText || !strings.HasPrefix(r.Model, "Power Edge <b>x") {
		t.Errorf("the model is %q, %v", r.Model, err)
	}
}

// TestRepeatedCredentialsAreRemoved checks that a BMC which repeats the credentials brings them to no page.
func TestRepeatedCredentialsAreRemoved(t *testing.T) {
	t.Parallel()
	m, c, to := start(t, mockbmc.IDRAC)
	m.SetMode(mockbmc.Repeats)
	if r, err := c.Read(t.Context(), to); err != nil || r.Model != "R650 …" {
		t.Errorf("the model is %q, %v", r.Model, err)
	}
	_, err := c.Send(t.Context(), to, bmc.PowerOff)
	if e := wantError(t, err, "Not with Basic … or …"); e.InDoubt {
		t.Error("a refused command is in doubt")
	}
}

// TestCredentialsNeedTrustedCertificate checks that no password is sent before the certificate is known.
func TestCredentialsNeedTrustedCertificate(t *testing.T) {
	t.Parallel()
	m, c, to := start(t, mockbmc.OpenBMC)
	none := to
	none.Fingerprint = ""
	_, err := c.Read(t.Context(), none)
	wantError(t, err, "not pinned yet")
	if got, err := c.FirstFingerprint(t.Context(), none.Spec); err != nil || got != to.Fingerprint {
		t.Errorf("the fingerprint is %s, %v", got, err)
	}
	ca := to
	ca.Trust, ca.Fingerprint, ca.CA = bmc.TrustCA, "", m.CA()
	if _, err := c.Read(t.Context(), ca); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if err := m.ChangeCertificate(); err != nil {
		t.Fatal(err)
	}
	_, before := m.Requests()
	_, err = c.Read(t.Context(), to)
	wantError(t, err, "has changed")
	_, err = c.Send(t.Context(), ca, bmc.PowerOff)
	wantError(t, err, "could not be reached")
	if _, after := m.Requests(); after != before || len(m.Resets()) != 0 {
		t.Errorf("%d requests with credentials, %d before", after, before)
	}
}

// TestAddressesAreChecked checks the rules for addresses, also when a name resolves to another address later.
func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	c := redfish.New(nil)
	for address, allowed := range map[string]bool{
		"https://10.0.8.11": true, "https://192.168.1.5:8443": true, "https://[fd00::5]": true, "https://1.1.1.1": true, "https://bmc.example": true,
		"https://127.0.0.1": false, "https://[::1]": false, "https://169.254.169.254": false, "https://[fe80::1]": false, "https://[fd00:ec2::254]": false,
		"https://[::ffff:127.0.0.1]": false, "https://0.0.0.0": false, "https://[64:ff9b::7f00:1]": false,
	} {
		if err := c.CheckAddress(bmc.Spec{Address: address}); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	m, _, to := start(t, mockbmc.IDRAC)
	c.SetLookup(func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})
	to.Address = strings.Replace(to.Address, "127.0.0.1", "bmc.example", 1)
	_, err := c.Read(t.Context(), to)
	wantError(t, err, "The address 127.0.0.1 is in a private or reserved network")
	if n, _ := m.Requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
