package fleet

import (
	"encoding/hex"
	"net/url"
	"path"
	"strings"
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

// ParseDownload parses a download address, or returns why it is refused. checked says that a checksum is known. Without
// one, plain http is refused because anybody on the way could change the file.
func ParseDownload(address string, checked bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > MaxURL:
		return nil, Errorf(Invalid, "An address has at most %d characters.", MaxURL)
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || !plain(address) || strings.ContainsAny(address, " \\"):
		return nil, Errorf(Invalid, "Write the whole address, such as https://example.org/image.qcow2.")
	case u.User != nil:
		return nil, Errorf(Invalid, "An address with a user or a password is not taken: orders are kept as they were given. Offer the file without, or copy it into the pool's directory.")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return nil, Errorf(Invalid, "Leave out what begins with #: no server is told of it.")
	case u.Scheme == "https", u.Scheme == "http" && checked:
		return u, nil
	case u.Scheme == "http":
		return nil, Errorf(Invalid, "Plain http is taken only with a checksum: anybody on the way could change the file. Give the checksum, or an https address.")
	}
	return nil, Errorf(Invalid, "Only https is downloaded from, and http where the checksum is given.")
}

// ParseChecksumFile parses the address of a checksum file, or returns why it is refused. Only https is accepted:
// nothing else protects its content.
func ParseChecksumFile(address string) (*url.URL, error) {
	u, err := ParseDownload(address, false)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = Errorf(Invalid, "An address with a question mark is not taken: orders are kept as they were given.")
	}
	return u, err
}

// NameOfDownload returns the default volume name of a download: the last part of the URL's path.
func NameOfDownload(address string) string {
	u, err := url.Parse(address)
	if err != nil || strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return ""
	}
	return path.Base(u.Path)
}
