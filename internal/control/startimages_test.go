package control_test

import (
	"strings"
	"testing"

	"quantix/internal/catalog"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (s *libraryFixture) catalogEntry(name string) catalog.View {
	s.t.Helper()
	all, err := s.StartImages(s.t.Context(), chief)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range all {
		if v.Name == name {
			return v
		}
	}
	s.t.Fatalf("the list has no %s", name)
	return catalog.View{}
}

// Catalog entries from the migration pass the same checks as entries added by people.
func TestShippedCatalogEntriesAreValid(t *testing.T) {
	s := newLibraryFixture(t)
	all, err := s.StartImages(t.Context(), chief)
	if err != nil || len(all) < 7 {
		t.Fatalf("%d entries: %v", len(all), err)
	}
	for _, distribution := range []string{"Debian", "Ubuntu", "Fedora", "AlmaLinux", "Alpine"} {
		found := false
		for _, v := range all {
			found = found || v.OS.Name == distribution
		}
		if !found {
			t.Errorf("no %s", distribution)
		}
	}
	for _, v := range all {
		var checks fleet.Checks
		v.Check(&checks)
		if err := checks.Err(); err != nil || v.ChecksumURL == "" || !strings.HasPrefix(v.URL, "https://") || v.ChangedBy != "" || v.OS.Arch != "x86_64" || v.Normalized() != v.Image {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

func TestCatalogRestoreResetsShippedEntries(t *testing.T) {
	s := newLibraryFixture(t)
	debian, fedora := s.catalogEntry("Debian 12"), s.catalogEntry("Fedora 44")
	sum := strings.Repeat("ab", 32)
	own := control.NewStartImage{Name: "Ours", URL: "https://example.org/ours.qcow2", Checksum: strings.ToUpper(sum)}
	id, err := s.AddStartImage(t.Context(), chief, own)
	if err != nil {
		t.Fatal(err)
	}
	s.auditActions("startimage.create")
	if v := s.catalogEntry("Ours"); v.ID != id || v.File != "ours.qcow2" || v.Checksum != "sha256:"+sum || v.ChangedBy == "" {
		t.Errorf("%+v", v)
	}
	s.wantRefused("its name again", fleet.Conflict, "already", func() error { _, err := s.AddStartImage(t.Context(), chief, own); return err })
	s.wantRefused("an invalid address", fleet.Invalid, "Plain http needs a checksum", func() error {
		return s.EditStartImage(t.Context(), chief, debian.ID, control.EditStartImage{URL: new("http://example.org/a.qcow2"), ChecksumURL: new("")})
	})
	s.wantRefused("another's name", fleet.Conflict, "already", func() error {
		return s.EditStartImage(t.Context(), chief, debian.ID, control.EditStartImage{Name: new("Fedora 44")})
	})
	if err := s.EditStartImage(t.Context(), chief, debian.ID, control.EditStartImage{URL: new("https://mirror.example.org/debian.qcow2")}); err != nil {
		t.Fatal(err)
	}
	s.auditActions("startimage.edit")
	if v := s.catalogEntry("Debian 12"); v.URL != "https://mirror.example.org/debian.qcow2" || v.ChecksumURL != debian.ChecksumURL || v.ChangedBy == "" {
		t.Errorf("%+v", v)
	}
	if err := s.RemoveStartImage(t.Context(), chief, fedora.ID); err != nil {
		t.Fatal(err)
	}
	s.auditActions("startimage.delete")
	s.wantRefused("a removed entry", fleet.NotFound, "no such entry", func() error { return s.RemoveStartImage(t.Context(), chief, fedora.ID) })
	if err := s.EditStartImage(t.Context(), chief, id, control.EditStartImage{Name: new("Fedora 44")}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("restore while an entry has the name", fleet.Conflict, "Rename or remove", func() error { _, err := s.RestoreStartImages(t.Context(), chief); return err })
	if err := s.EditStartImage(t.Context(), chief, id, control.EditStartImage{Name: new("Ours")}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.RestoreStartImages(t.Context(), chief); err != nil || n != 2 {
		t.Errorf("%d restored: %v", n, err)
	}
	s.auditActions("startimage.restore")
	if back := s.catalogEntry("Debian 12"); back.URL != debian.URL || back.ChangedBy != "" || s.catalogEntry("Fedora 44").ID != fedora.ID || s.catalogEntry("Ours").ID != id {
		t.Errorf("%+v", back)
	}
}

// The first pull of a catalog entry adds an image with the entry's name and operating system; the second pull adds a
// version. A failed pull shows its error at the entry and leaves no version.
func TestPullCatalogImageAddsImageVersion(t *testing.T) {
	s := newLibraryFixture(t)
	debian := s.catalogEntry("Debian 12")
	pull := func(in control.PullDestination) (fleet.ImageID, fleet.Task, error) {
		return s.PullStartImage(t.Context(), chief, debian.ID, in)
	}
	s.wantRefused("no pool", fleet.Invalid, "Choose the pool", func() error { _, _, err := pull(control.PullDestination{}); return err })
	id, task, err := pull(control.PullDestination{PoolID: s.nfs, Public: true})
	if err != nil || task.Kind != fleet.VolumeFetch || task.SubjectName != "debian-12.qcow2" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("image.pull")
	v := s.catalogEntry("Debian 12")
	if ok, why := v.Allows(fleet.ActPull); ok || v.Last == nil || v.Last.TaskID != task.ID || !strings.Contains(why, "already") {
		t.Errorf("during the pull: %+v", v)
	}
	s.wantRefused("twice at once", fleet.Conflict, "being pulled already", func() error { _, _, err := pull(control.PullDestination{PoolID: s.nfs}); return err })

	// The host reports that the download failed because the host has no network.
	work := s.claimedWork(task.HostID, fleet.VolumeFetch)
	if o := work[0].Args.Volume; len(work) != 1 || o.URL != debian.URL || o.ChecksumURL != debian.ChecksumURL || o.Checksum != "" {
		t.Fatalf("%+v", work)
	}
	says := "The host cannot find cloud.debian.org: no such host. Check the address, and the host's network connection and DNS."
	s.finishJobWith(task.HostID, work[0], wire.Finish{Outcome: wire.Failed, Error: says})
	v = s.catalogEntry("Debian 12")
	if ok, _ := v.Allows(fleet.ActPull); !ok || v.Last.State != fleet.JobFailed || v.Last.Error != says || len(v.Pulled) != 0 {
		t.Errorf("after it failed: %+v %+v", v, v.Last)
	}

	// The second pull uses the same image, and the failed version is deleted.
	again, task, err := pull(control.PullDestination{PoolID: s.nfs})
	if err != nil || again != id {
		t.Fatalf("%s %v", again, err)
	}
	s.finishVolume(task.HostID, s.claimedWork(task.HostID, fleet.VolumeFetch)[0], `{"sha256":"`+someSHA256+`"}`)
	image := s.getImage(chief, id)
	if len(image.Versions) != 1 || image.Name != "Debian 12" || image.OS != debian.OS || image.PublishedToText() != "all projects" || image.Versions[0].StartID != debian.ID || !image.Versions[0].Usable {
		t.Errorf("%+v", image)
	}
	v = s.catalogEntry("Debian 12")
	if v.ImageID != id || len(v.Pulled) != 1 || v.Pulled[0].PoolID != s.nfs || v.Pulled[0].Version != 1 || v.Last.State != fleet.JobDone {
		t.Errorf("%+v", v)
	}

	// A pull into a pool that already has the image's file uses another file name. For a local pool the portal chooses a
	// host.
	if _, task, err = pull(control.PullDestination{PoolID: s.nfs}); err != nil || task.SubjectName != "debian-12-2.qcow2" {
		t.Fatalf("%+v %v", task, err)
	}
	s.finishVolume(task.HostID, s.claimedWork(task.HostID, fleet.VolumeFetch)[0], `{"sha256":"`+strings.Repeat("1", 64)+`"}`)
	if _, task, err = pull(control.PullDestination{PoolID: s.local}); err != nil || task.HostID == "" {
		t.Fatalf("into a local pool: %+v %v", task, err)
	}
	s.finishJobWith(task.HostID, s.claimedWork(task.HostID, fleet.VolumeFetch)[0], wire.Finish{Outcome: wire.Failed, Error: says})
	if image = s.getImage(chief, id); len(image.Versions) < 2 || image.Versions[len(image.Versions)-2].Number != 2 {
		t.Errorf("%+v", image.Versions)
	}

	// A download is refused if the image already has the same bytes.
	if err := s.EditStartImage(t.Context(), chief, debian.ID, control.EditStartImage{Checksum: new(someSHA256), ChecksumURL: new("")}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("content that the image has", fleet.Conflict, "the same content already", func() error { _, _, err := pull(control.PullDestination{PoolID: s.nfs}); return err })
	if err := s.RemoveStartImage(t.Context(), chief, debian.ID); err != nil {
		t.Fatal(err)
	}
	if image = s.getImage(chief, id); image.Newest().StartID != "" {
		t.Errorf("the image changed after the removal of its entry: %+v", image.Newest())
	}
	s.wantRefused("a pull of a removed entry", fleet.NotFound, "no such entry", func() error { _, _, err := pull(control.PullDestination{PoolID: s.nfs}); return err })
}
