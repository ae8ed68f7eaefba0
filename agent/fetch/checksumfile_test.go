package fetch

import (
	"strings"
	"testing"
)

func TestFindChecksumReadsCommonFormats(t *testing.T) {
	t.Parallel()
	a, b, long := strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("0f", 64)
	for name, c := range map[string]struct{ text, want, says string }{
		"coreutils":              {b + "  other.qcow2\n" + a + "  image.qcow2\n", "sha256:" + a, ""},
		"coreutils, binary":      {a + " *image.qcow2\r\n", "sha256:" + a, ""},
		"coreutils, sha512":      {long + "  ./image.qcow2", "sha512:" + long, ""},
		"BSD":                    {"# image.qcow2: 5 bytes\nSHA256 (other.qcow2) = " + b + "\nSHA256 (image.qcow2) = " + strings.ToUpper(a) + "\n", "sha256:" + a, ""},
		"signed":                 {"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nSHA256 (image.qcow2) = " + a + "\n-----BEGIN PGP SIGNATURE-----\niQ==\n", "sha256:" + a, ""},
		"the stronger of both":   {"SHA256 (image.qcow2) = " + a + "\nSHA512 (image.qcow2) = " + long + "\n", "sha512:" + long, ""},
		"digits alone":           {" " + a + "\n", "sha256:" + a, ""},
		"digits alone, sha512":   {long, "sha512:" + long, ""},
		"same digest twice":      {a + "  image.qcow2\n" + a + "  image.qcow2\n", "sha256:" + a, ""},
		"different digests":      {a + "  image.qcow2\n" + b + "  image.qcow2\n", "", "two different"},
		"only another file":      {a + "  other.qcow2\n", "", "no SHA-256"},
		"a part of the name":     {a + "  my-image.qcow2\n" + a + "  image.qcow2.sig\n", "", "no SHA-256"},
		"several without a name": {a + "\n" + b + "\n", "", "no SHA-256"},
		"md5":                    {strings.Repeat("a", 32) + "  image.qcow2\nMD5 (image.qcow2) = " + strings.Repeat("a", 32), "", "no SHA-256"},
		"no digits":              {"SHA256 (image.qcow2) = " + strings.Repeat("z", 64), "", "no SHA-256"},
		"a web page":             {"<!DOCTYPE html><title>Not found</title>", "", "no SHA-256"},
		"nothing":                {"", "", "no SHA-256"},
	} {
		got, err := FindChecksum(c.text, "image.qcow2")
		if got != c.want || (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}
