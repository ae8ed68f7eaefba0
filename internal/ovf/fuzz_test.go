package ovf_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`<!DOCTYPE x><Envelope/>`))
	f.Add([]byte(`<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/2"><VirtualSystem><VirtualHardwareSection/></VirtualSystem></Envelope>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ovf.Parse(text, []ovf.File{{Name: "disk.vmdk", Size: 5}})
		if err != nil {
			if fleet.CodeOf(err) != fleet.Invalid {
				t.Errorf("not a refusal: %v", err)
			}
			return
		}
		checkInvariants(t, a)
	})
}

func FuzzRead(f *testing.F) {
	f.Add(buildArchive(f, plainEntry("web.ovf", good), plainEntry("disk.vmdk", "12345"), plainEntry("web.mf", manifestOf("web.ovf", good, "disk.vmdk", "12345"))))
	f.Add(writeArchive(f, fleet.Appliance{Name: "a", CPUs: 1, MemoryMiB: 128}))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, files, err := readArchiveBytes(text)
		if err != nil {
			return
		}
		checkInvariants(t, a)
		for _, file := range files.Files {
			if file.Offset < 0 || file.Size < 0 || file.Offset+file.Size > int64(len(text)) {
				t.Errorf("%+v lies outside of the archive", file)
			}
		}
	})
}

// checkInvariants fails the test if a parsed machine violates a bound.
func checkInvariants(t *testing.T, a fleet.Appliance) {
	t.Helper()
	if len(a.Disks) > fleet.MaxDisks || len(a.NICs) > fleet.MaxNICs || len(a.NotImported) > fleet.MaxApplianceNotes || a.CPUs > fleet.MaxCPUs || a.MemoryMiB > fleet.MaxMemoryMiB || a.CPUs < 0 || a.MemoryMiB < 0 {
		t.Errorf("beyond its bounds: %+v", a)
	}
	var c fleet.Checks
	fleet.CheckName(&c, "name", a.VMName("x.ova"))
	if err := c.Err(); err != nil {
		t.Errorf("no VM can be called %q", a.VMName("x.ova"))
	}
	for _, d := range a.Disks {
		if d.SizeBytes <= 0 || d.SizeBytes > fleet.MaxDiskBytes {
			t.Errorf("a disk of %d bytes", d.SizeBytes)
		}
	}
}
