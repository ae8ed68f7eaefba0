// Package download parses and checks the addresses and checksums of downloads.
package download

import (
	"encoding/hex"
	"net/url"
	"path"
	"strings"

	"quantix/internal/fleet"
)

// MaxURL is the maximum length of a download address.
const MaxURL = 2000

// digests are the supported checksum algorithms with their length in hexadecimal digits.
var digests = map[string]int{"sha256": 64, "sha512": 128}

// ParseChecksum parses "sha256:…", "sha512:…", or a bare digest whose length determines the algorithm. Empty text means
// no checksum.
func ParseChecksum(text string) (algorithm, digest string, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return "", "", true
	}
	algorithm, digest, named := strings.Cut(text, ":")
	if !named {
		digest = text
		for name, length := range digests {
			if len(digest) == length {
				algorithm = name
			}
		}
	}
	_, err := hex.DecodeString(digest)
	return algorithm, digest, err == nil && digest != "" && digests[algorithm] == len(digest)
}

// ParseURL parses a download address, or returns why it is refused. checked reports whether the file's checksum is
// known. Plain http needs a checksum, because the file could be changed in transit.
func ParseURL(address string, checked bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > MaxURL:
		return nil, fleet.Errorf(fleet.Invalid, "An address has at most %d characters.", MaxURL)
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || !fleet.IsPlainText(address) || strings.ContainsAny(address, " \\"):
		return nil, fleet.Errorf(fleet.Invalid, "Enter the complete address, such as https://example.org/image.qcow2.")
	case u.User != nil:
		return nil, fleet.Errorf(fleet.Invalid, "The address must not contain a user name or password, because requests are stored. Serve the file without a password, or copy it into the pool's directory.")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return nil, fleet.Errorf(fleet.Invalid, "Remove the part from # on: servers do not receive it.")
	case u.Scheme == "https", u.Scheme == "http" && checked:
		return u, nil
	case u.Scheme == "http":
		return nil, fleet.Errorf(fleet.Invalid, "Plain http needs a checksum, because the file could be changed in transit. Enter the checksum, or an https address.")
	}
	return nil, fleet.Errorf(fleet.Invalid, "Only https addresses are supported, and http addresses with a checksum.")
}

// ParseChecksumFileURL parses the address of a checksum file, or returns why it is refused. Only https is accepted,
// because nothing else protects the file's content.
func ParseChecksumFileURL(address string) (*url.URL, error) {
	u, err := ParseURL(address, false)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = fleet.Errorf(fleet.Invalid, "The address must not contain a question mark, because requests are stored.")
	}
	return u, err
}

// VolumeName returns the default volume name of a download: the last part of the URL's path.
func VolumeName(address string) string {
	u, err := url.Parse(address)
	if err != nil || strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return ""
	}
	return path.Base(u.Path)
}

// Check adds errors at the fields url, checksum and checksumUrl if a host cannot download from the address.
func Check(c *fleet.Checks, address, checksum, checksumURL string) {
	_, digest, known := ParseChecksum(checksum)
	if !known {
		c.Add("checksum", "Enter the 64 digits of a SHA-256, or the 128 digits of a SHA-512.")
	}
	if checksumURL != "" {
		if digest != "" {
			c.Add("checksumUrl", "Enter the checksum or the address of a checksum file, not both.")
		}
		if _, err := ParseChecksumFileURL(checksumURL); err != nil {
			c.Add("checksumUrl", "%s", err)
		}
	}
	at, err := ParseURL(address, digest != "" || !known || checksumURL != "")
	switch {
	case err != nil:
		c.Add("url", "%s", err)
	case at.RawQuery != "" || at.ForceQuery:
		c.Add("url", "The address must not contain a question mark, because requests are stored and the part after it is often secret. Serve the file without it.")
	}
}
