package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

func TestFetchVolumeReservesVolumeName(t *testing.T) {
	s := newProjectFixture(t)
	fetch := func(pool fleet.PoolID, in storage.NewDownload) func() error {
		return func() error { _, err := s.FetchVolume(t.Context(), chief, pool, in); return err }
	}
	sum := strings.Repeat("AB", 32)
	in := storage.NewDownload{URL: "https://example.org/images/fedora.qcow2", Checksum: sum}
	task, err := s.FetchVolume(t.Context(), chief, s.nfs, in)
	if err != nil || task.Kind != fleet.VolumeFetch || task.HostName == "" || task.SubjectName != "fedora.qcow2" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("volume.fetch")
	s.wantRefused("the same name again", fleet.Invalid, "is being made", fetch(s.nfs, in))
	s.wantRefused("a volume of that name", fleet.Invalid, "is being made", func() error {
		_, err := s.CreateVolume(t.Context(), chief, s.nfs, storage.NewVolume{Name: "fedora.qcow2", Format: "raw", SizeBytes: 1 << 20})
		return err
	})
	in.Name = "other.qcow2"
	for says, bad := range map[string]storage.NewDownload{
		"user name or password": {URL: "https://me:secret@example.org/a"},
		"a question mark":       {URL: "https://example.org/a?token=open"},
		"Plain http needs":      {URL: "http://example.org/a"},
		"Only https":            {URL: "ftp://example.org/a", Checksum: sum},
		"64 digits":             {URL: "https://example.org/a", Checksum: "12"},
		"letters, digits":       {URL: "https://example.org/"},
		"disks of VMs":          {URL: "https://example.org/a", Name: "web-0123456789ab-1.qcow2"},
		"incomplete volumes":    {URL: "https://example.org/a", Name: "a.partial"},
	} {
		s.wantRefused(says, fleet.Invalid, says, fetch(s.nfs, bad))
	}
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Errorf("cancel the queued download: %v", err)
	}
}
