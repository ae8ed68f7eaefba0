package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/catalog"
	"quantix/internal/fleet"
)

func TestImageCatalogEntriesAreValidated(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	good := catalog.Image{Name: "Debian 12", URL: "https://example.org/debian.qcow2", ChecksumURL: "https://example.org/SHA256SUMS"}
	for name, c := range map[string]struct {
		with func(*catalog.Image)
		at   string
	}{
		"good":                      {func(*catalog.Image) {}, ""},
		"http with a file over TLS": {func(i *catalog.Image) { i.URL = "http://example.org/debian.qcow2" }, ""},
		"http with a checksum":      {func(i *catalog.Image) { i.URL, i.Checksum, i.ChecksumURL = "http://example.org/a.qcow2", sum, "" }, ""},
		"http without a checksum":   {func(i *catalog.Image) { i.URL, i.ChecksumURL = "http://example.org/a.qcow2", "" }, "url"},
		"a password":                {func(i *catalog.Image) { i.URL = "https://me:x@example.org/a.qcow2" }, "url"},
		"a query":                   {func(i *catalog.Image) { i.URL += "?token=x" }, "url"},
		"a file of sums over http":  {func(i *catalog.Image) { i.ChecksumURL = "http://example.org/SUMS" }, "checksumUrl"},
		"a file of sums with query": {func(i *catalog.Image) { i.ChecksumURL += "?x" }, "checksumUrl"},
		"checksum and file":         {func(i *catalog.Image) { i.Checksum = sum }, "checksumUrl"},
		"no checksum":               {func(i *catalog.Image) { i.Checksum, i.ChecksumURL = "12", "" }, "checksum"},
		"no name":                   {func(i *catalog.Image) { i.Name = " " }, "name"},
		"an invalid file name":      {func(i *catalog.Image) { i.File = "../x" }, "file"},
		"an address without a file": {func(i *catalog.Image) { i.URL = "https://example.org/" }, "file"},
		"an unknown family":         {func(i *catalog.Image) { i.OS.Family = "cake" }, "os.family"},
	} {
		i, checks := good, fleet.Checks{}
		c.with(&i)
		i = i.Normalized()
		i.Check(&checks)
		err := checks.Err()
		refused, _ := errors.AsType[*fleet.Error](err)
		if (err == nil) != (c.at == "") || refused != nil && refused.Fields[0].Field != c.at {
			t.Errorf("%s: %v", name, err)
		}
	}
}
