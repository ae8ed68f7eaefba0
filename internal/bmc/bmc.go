// Package bmc describes a host's baseboard management controller (BMC), which switches the host's power.
package bmc

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/url"
	"strings"
	"time"
	"unicode"

	"quantix/internal/fleet"
)

// Trust is how the portal recognizes a BMC.
type Trust string

const (
	// TrustPin: by the fingerprint of its certificate, which the portal pins at the first connection.
	TrustPin Trust = "pin"
	// TrustCA: by a certificate of a given authority for the name or address in the URL.
	TrustCA Trust = "ca"
)

// Limits of a Spec's fields.
const (
	maxAddress  = 300
	maxUser     = 128
	maxPassword = 256
	maxCA       = 64 << 10
	maxSystemID = 128
)

// Spec is what a user configures, except for the password, which no answer contains.
type Spec struct {
	Address string `json:"address" doc:"https URL without a path, such as https://10.0.8.11"`
	User    string `json:"user"`
	Trust   Trust  `json:"trust" enum:"pin,ca" doc:"pin: the certificate's fingerprint, pinned at the first connection; ca: a certificate of the authority in ca"`
	// Fingerprint is the SHA-256 of the only accepted certificate, in hexadecimal; empty: that of the first connection.
	Fingerprint string `json:"fingerprint,omitempty" doc:"pin: SHA-256 of the certificate; empty: pinned at the first connection"`
	CA          string `json:"ca,omitempty" doc:"ca: certificates of the authority, PEM"`
	SystemID    string `json:"systemId,omitempty" doc:"ID of the host's system in the BMC; empty: the only one"`
}

// Normalize returns the spec in the form that is stored, for example with the fingerprint in lower case.
func (s Spec) Normalize() Spec {
	s.Address = strings.TrimRight(strings.TrimSpace(s.Address), "/")
	s.User, s.SystemID, s.CA = strings.TrimSpace(s.User), strings.TrimSpace(s.SystemID), strings.TrimSpace(s.CA)
	s.Fingerprint = strings.ToLower(strings.Map(func(r rune) rune {
		if r == ':' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s.Fingerprint))
	if s.Trust == "" {
		s.Trust = TrustPin
	}
	return s
}

// Check adds the errors of the normalized spec.
func (s Spec) Check(c *fleet.Checks) {
	if _, err := s.URL(); err != "" {
		c.Add("address", "%s", err)
	}
	checkText(c, "user", "user name", s.User, maxUser, true)
	if strings.Contains(s.User, ":") {
		c.Add("user", "A user name of a BMC has no colon.")
	}
	checkText(c, "systemId", "system ID", s.SystemID, maxSystemID, false)
	if strings.ContainsAny(s.SystemID, "/?#@%") {
		c.Add("systemId", "Enter only the system's ID, such as System.Embedded.1.")
	}
	switch s.Trust {
	case TrustPin:
		if raw, err := hex.DecodeString(s.Fingerprint); s.Fingerprint != "" && (err != nil || len(raw) != 32) {
			c.Add("fingerprint", "A SHA-256 fingerprint has 64 hexadecimal digits. Leave it empty to pin the certificate of the first connection.")
		}
		if s.CA != "" {
			c.Add("ca", "A pinned certificate needs no authority.")
		}
	case TrustCA:
		if s.Fingerprint != "" {
			c.Add("fingerprint", "With an authority, no fingerprint is pinned.")
		}
		if len(s.CA) > maxCA || !hasOnlyCertificates(s.CA) {
			c.Add("ca", "Enter the certificates of the authority in PEM, at most 64 KiB.")
		}
	default:
		c.Add("trust", "Use pin or ca.")
	}
}

func hasOnlyCertificates(text string) bool {
	rest, n := []byte(text), 0
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return n > 0 && strings.TrimSpace(string(rest)) == ""
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil || b.Type != "CERTIFICATE" {
			return false
		}
		n++
	}
}

// CheckPassword adds the errors of a password.
func CheckPassword(c *fleet.Checks, password string) {
	checkText(c, "password", "password", password, maxPassword, true)
}

func checkText(c *fleet.Checks, field, name, text string, most int, needed bool) {
	switch {
	case text == "" && needed:
		c.Add(field, "Enter the %s.", name)
	case len(text) > most:
		c.Add(field, "The %s has at most %d bytes.", name, most)
	case strings.ContainsFunc(text, unicode.IsControl):
		c.Add(field, "The %s has a control character.", name)
	}
}

// URL parses the address. why is the reason why the address is invalid; empty: it is valid.
func (s Spec) URL() (at *url.URL, why string) {
	at, err := url.Parse(s.Address)
	switch {
	case s.Address == "":
		return nil, "Enter the https address of the BMC."
	case err != nil || len(s.Address) > maxAddress || at.Hostname() == "":
		return nil, "This is not an address. Use one such as https://10.0.8.11."
	case at.Scheme != "https":
		return nil, "Use https: the password must not be readable on the network."
	case at.User != nil:
		return nil, "Enter user and password in their own fields, not in the address."
	case at.Path != "" && at.Path != "/" || at.RawQuery != "" || at.Fragment != "" || at.Opaque != "" || strings.HasSuffix(s.Address, "?"):
		return nil, "Enter the address without a path, such as https://10.0.8.11."
	}
	return at, ""
}

// Command switches a host's power.
type Command string

const (
	PowerOn  Command = "on"
	PowerOff Command = "off" // without a shutdown of the operating system
	Reset    Command = "reset"
)

// Wanted returns the power state that the command leads to.
func (c Command) Wanted() Power {
	if c == PowerOff {
		return Off
	}
	return On
}

// Power is a host's power state as its BMC reports it.
type Power string

const (
	On          Power = "On"
	Off         Power = "Off"
	PoweringOn  Power = "PoweringOn"
	PoweringOff Power = "PoweringOff"
	Unknown     Power = "" // not read, or another word
)

// DisplayName returns the power state as pages show it.
func (p Power) DisplayName() string {
	switch p {
	case On, Off:
		return string(p)
	case PoweringOn:
		return "Powering on"
	case PoweringOff:
		return "Powering off"
	}
	return "Unknown"
}

// Reading is what a BMC reports about the host. All texts are single lines of at most MaxText bytes.
type Reading struct {
	Power    Power  `json:"power"`
	Maker    string `json:"manufacturer,omitempty"`
	Model    string `json:"model,omitempty"`
	Health   string `json:"health,omitempty"` // Redfish's word: "OK", "Warning" or "Critical"
	SystemID string `json:"systemId"`
	UUID     string `json:"uuid,omitempty"` // the machine's UUID in its firmware
}

// MaxText limits the texts of a BMC in bytes.
const MaxText = 300

// CleanText returns a BMC's text as one line of visible characters, of at most MaxText bytes.
func CleanText(text string) string {
	if len(text) > 8*MaxText {
		text = text[:8*MaxText]
	}
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, text)), " ")
	if len(line) > MaxText {
		line = strings.ToValidUTF8(line[:MaxText-len("…")], "") + "…"
	}
	return line
}

// FreshFor is how long a read power state counts: two reads may fail.
const FreshFor = 3 * ReadInterval

// ReadInterval is the time between two reads of a BMC that answers.
const ReadInterval = time.Minute

// BMC is the BMC of a host, with what the portal last read from it.
type BMC struct {
	HostID fleet.HostID `json:"hostId"`
	Spec
	Generation int64      `json:"generation"`
	Reading    *Reading   `json:"reading,omitempty"` // of the newest successful read
	ReadAt     *time.Time `json:"readAt,omitempty"`  // time of Reading
	// Power is Reading's power state; empty: unknown, because the reading is missing or too old.
	Power     Power      `json:"power,omitempty"`
	Error     string     `json:"error,omitempty"` // of the newest attempt; empty: it succeeded
	CheckedAt *time.Time `json:"checkedAt,omitempty"`
	Checking  bool       `json:"checking,omitempty"` // a requested test has not ended
	// OtherMachine: the reading's UUID is not that of the host's operating system.
	OtherMachine bool `json:"otherMachine,omitempty"`
}

// PowerAt returns the power state of a reading at now.
func PowerAt(r *Reading, readAt *time.Time, now time.Time) Power {
	if r == nil || readAt == nil || now.Sub(*readAt) > FreshFor {
		return Unknown
	}
	return r.Power
}

// SameMachine reports whether two UUIDs can be those of one machine. Firmware and operating systems disagree on the byte
// order of the first three fields. A missing UUID matches any.
func SameMachine(x, y string) bool {
	a, b := uuidBytes(x), uuidBytes(y)
	if a == nil || b == nil || string(a) == string(b) {
		return true
	}
	for _, swap := range [][2]int{{0, 3}, {1, 2}, {4, 5}, {6, 7}} {
		a[swap[0]], a[swap[1]] = a[swap[1]], a[swap[0]]
	}
	return string(a) == string(b)
}

func uuidBytes(text string) []byte {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		return nil
	}
	return raw
}
