package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/fleet"
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
		got, err := fleet.FindChecksum(c.text, "image.qcow2")
		if got != c.want || (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestImageCatalogEntriesAreValidated(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	good := fleet.StartImage{Name: "Debian 12", URL: "https://example.org/debian.qcow2", ChecksumURL: "https://example.org/SHA256SUMS"}
	for name, c := range map[string]struct {
		with func(*fleet.StartImage)
		at   string
	}{
		"good":                      {func(*fleet.StartImage) {}, ""},
		"http with a file over TLS": {func(i *fleet.StartImage) { i.URL = "http://example.org/debian.qcow2" }, ""},
		"http with a checksum":      {func(i *fleet.StartImage) { i.URL, i.Checksum, i.ChecksumURL = "http://example.org/a.qcow2", sum, "" }, ""},
		"http without a checksum":   {func(i *fleet.StartImage) { i.URL, i.ChecksumURL = "http://example.org/a.qcow2", "" }, "url"},
		"a password":                {func(i *fleet.StartImage) { i.URL = "https://me:x@example.org/a.qcow2" }, "url"},
		"a query":                   {func(i *fleet.StartImage) { i.URL += "?token=x" }, "url"},
		"a file of sums over http":  {func(i *fleet.StartImage) { i.ChecksumURL = "http://example.org/SUMS" }, "checksumUrl"},
		"a file of sums with query": {func(i *fleet.StartImage) { i.ChecksumURL += "?x" }, "checksumUrl"},
		"checksum and file":         {func(i *fleet.StartImage) { i.Checksum = sum }, "checksumUrl"},
		"no checksum":               {func(i *fleet.StartImage) { i.Checksum, i.ChecksumURL = "12", "" }, "checksum"},
		"no name":                   {func(i *fleet.StartImage) { i.Name = " " }, "name"},
		"an invalid file name":      {func(i *fleet.StartImage) { i.File = "../x" }, "file"},
		"an address without a file": {func(i *fleet.StartImage) { i.URL = "https://example.org/" }, "file"},
		"an unknown family":         {func(i *fleet.StartImage) { i.OS.Family = "cake" }, "os.family"},
	} {
		i, checks := good, fleet.Checks{}
		c.with(&i)
		i = i.Tidy()
		i.Check(&checks)
		err := checks.Err()
		refused, _ := errors.AsType[*fleet.Error](err)
		if (err == nil) != (c.at == "") || refused != nil && refused.Fields[0].Field != c.at {
			t.Errorf("%s: %v", name, err)
		}
	}
}
