package download_test

import (
	"strings"
	"testing"

	"quantix/internal/download"
)

func TestDownloadURLsAreValidated(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"https://example.org/a.qcow2":            "",
		"https://example.org:8443/a?x=1":         "",
		"https://[2001:db8::1]:1/a":              "",
		"http://example.org/a":                   "Plain http",
		"ftp://example.org/a":                    "Only https",
		"HTTPS://example.org/a":                  "",
		"file:///etc/passwd":                     "Enter the complete address, such as https://example.org/image.qcow2.",
		"example.org/a":                          "Enter the complete address, such as https://example.org/image.qcow2.",
		"":                                       "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://":                               "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://:443/a":                         "Enter the complete address, such as https://example.org/image.qcow2.",
		"https:example.org":                      "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://example.org/a b":                "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://example.org/a\nb":               "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://example.org\\@evil.example/a":   "Enter the complete address, such as https://example.org/image.qcow2.",
		"https://me@example.org/a":               "The address must not contain a user name or",
		"https://me:secret@example.org/a":        "The address must not contain a user name or",
		"https://@example.org/a":                 "The address must not contain a user name or",
		"https://example.org/a#part":             "Remove the part from # on:",
		"https://example.org/a#":                 "Remove the part from # on:",
		"https://x/" + strings.Repeat("a", 2000): "at most 2000",
	} {
		_, err := download.ParseURL(address, false)
		switch {
		case says == "" && err != nil:
			t.Errorf("%q: %v", address, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v, want an error with %q", address, err, says)
		}
	}
	if _, err := download.ParseURL("http://example.org/a", true); err != nil {
		t.Errorf("http with a checksum: %v", err)
	}
	for address, name := range map[string]string{"https://x/a/b.iso?c=/d.raw": "b.iso", "https://x/": "", "https://x": "", "https://x/a/": "", "https://x/a%2Fb": "b"} {
		if got := download.VolumeName(address); got != name {
			t.Errorf("%s is called %q", address, got)
		}
	}
}

func TestParseChecksumInfersAlgorithm(t *testing.T) {
	t.Parallel()
	short, long := strings.Repeat("aB", 32), strings.Repeat("0f", 64)
	for text, want := range map[string][3]string{
		"": {"", "", "true"}, " " + short + "\n": {"sha256", strings.ToLower(short), "true"}, "SHA256:" + short: {"sha256", strings.ToLower(short), "true"},
		long: {"sha512", long, "true"}, "sha512:" + long: {"sha512", long, "true"}, "sha256:" + long: {}, "md5:" + strings.Repeat("a", 32): {}, strings.Repeat("a", 40): {},
		strings.Repeat("z", 64): {}, "sha256:": {}, ":": {}, "x:": {},
	} {
		algorithm, digest, ok := download.ParseChecksum(text)
		if ok != (want[2] == "true") || ok && (algorithm != want[0] || digest != want[1]) {
			t.Errorf("%q is %s %s %v", text, algorithm, digest, ok)
		}
	}
}
