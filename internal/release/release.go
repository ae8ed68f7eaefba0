// Package release describes signed releases of the agent: their file names, versions and signatures, which hosts can
// take one, and when the next hosts of an upgrade begin.
package release

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxBytes is the maximum size of a release's program.
const MaxBytes = 256 << 20

// Platform is what a program runs on, in the words of Go.
type Platform struct {
	OS   string `json:"os"`   // "linux"
	Arch string `json:"arch"` // "amd64"
}

func (p Platform) String() string { return p.OS + "-" + p.Arch }

var platformWord = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// ParsePlatform parses "linux-amd64".
func ParsePlatform(text string) (p Platform, ok bool) {
	p.OS, p.Arch, ok = strings.Cut(text, "-")
	return p, ok && platformWord.MatchString(p.OS) && platformWord.MatchString(p.Arch)
}

var versionText = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~_-]{0,62}$`)

// IsVersion reports whether the text can be the version of a release.
func IsVersion(text string) bool { return versionText.MatchString(text) }

const filePrefix = "quantix-"

// SignatureSuffix is the end of the name of a release's signature file.
const SignatureSuffix = ".sig"

// FileName returns the name of the release's program: "quantix-1.2.0-linux-amd64".
func FileName(version string, p Platform) string { return filePrefix + version + "-" + p.String() }

// ParseFileName is the inverse of FileName.
func ParseFileName(name string) (version string, p Platform, ok bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) < 3 {
		return "", p, false
	}
	n := len(parts) - 2
	p, ok = ParsePlatform(parts[n] + "-" + parts[n+1])
	version = strings.Join(parts[:n], "-")
	return version, p, ok && IsVersion(version)
}

// Manifest is the signed description of a release. It is the content of the signature file.
type Manifest struct {
	Format  string `json:"format"`
	Version string `json:"version"`
	Platform
	SizeBytes int64  `json:"sizeBytes"`
	SHA256    string `json:"sha256"`    // of the program, in hexadecimal
	KeyID     string `json:"keyId"`     // see PublicKey.ID
	Signature []byte `json:"signature"` // by ed25519, of signedText
}

// Format is the only format of manifests.
const Format = "quantix-release-1"

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check returns an error if a field cannot be that of a release. No field then contains a line feed, so the lines of
// signedText are unambiguous.
func (m Manifest) check() error {
	switch _, ok := ParsePlatform(m.Platform.String()); {
	case m.Format != Format:
		return fmt.Errorf("the signature has the format %.40q, not %q", m.Format, Format)
	case !IsVersion(m.Version):
		return errors.New("the signature names no valid version")
	case !ok:
		return errors.New("the signature names no valid platform")
	case m.SizeBytes <= 0 || m.SizeBytes > MaxBytes:
		return fmt.Errorf("the program must have 1 to %d bytes", int64(MaxBytes))
	case !sha256Text.MatchString(m.SHA256):
		return errors.New("the signature names no valid SHA-256")
	}
	return nil
}

// signedText returns the text that the signature signs.
func (m Manifest) signedText() []byte {
	return fmt.Appendf(nil, "%s\nversion %s\nos %s\narch %s\nsize %d\nsha256 %s\n", m.Format, m.Version, m.OS, m.Arch, m.SizeBytes, m.SHA256)
}
