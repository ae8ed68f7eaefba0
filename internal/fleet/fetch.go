package fleet

import (
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

// MaxURL bounds the address of a download.
const MaxURL = 2000

// digests are how long the checksums are that are known, in hexadecimal digits.
var digests = map[string]int{"sha256": 64, "sha512": 128}

// ParseChecksum reads "sha256:…", "sha512:…", or the digits alone, whose number tells which it is. Empty is none.
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

// ParseDownload reads the address of a download, or says why there is none. checked: its checksum is known, without which plain http
// would let anybody on the way change what is downloaded.
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

// ParseChecksumFile reads the address of a file of checksums, or says why there is none. It is https alone: nothing else vouches for what it says.
func ParseChecksumFile(address string) (*url.URL, error) {
	u, err := ParseDownload(address, false)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = Errorf(Invalid, "An address with a question mark is not taken: orders are kept as they were given.")
	}
	return u, err
}

// NameOfDownload is what a volume is called that is given no other name: the last part of the address's path.
func NameOfDownload(address string) string {
	u, err := url.Parse(address)
	if err != nil || strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return ""
	}
	return path.Base(u.Path)
}
