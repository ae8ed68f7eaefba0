package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

// addVolume adds a volume to the pool, as reported by the host.
func (s *projectFixture) addVolume(pool fleet.PoolID, host fleet.HostID, volume string) {
	s.t.Helper()
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || $3::jsonb) WHERE pool_id = $1 AND host_id = $2`, pool, host, volume)
}

// volumeNames joins the volumes' names.
func volumeNames(t *testing.T) func([]query.VolumeOn, error) string {
	return func(volumes []query.VolumeOn, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, v := range volumes {
			all = append(all, v.Name)
		}
		return strings.Join(all, " ")
	}
}

// cloneRequest returns a function that creates a VM with a disk cloned from an image of the pool. insertRequest returns
// a function that creates a VM with an ISO of the pool in its drive.
func (s *projectFixture) cloneRequest(a fleet.Actor, pool fleet.PoolID, volume string) func() error {
	in := control.CreateVM{ProjectID: s.red, Name: "clone", Spec: smallSpec}
	in.Spec.Disks = []fleet.Disk{{PoolID: pool, Image: &fleet.Volref{PoolID: pool, Volume: volume}}}
	return func() error { _, err := s.CreateVM(s.t.Context(), a, in); return err }
}

func (s *projectFixture) insertRequest(a fleet.Actor, pool fleet.PoolID, volume string) func() error {
	in := control.CreateVM{ProjectID: s.red, Name: "insert", Spec: smallSpec}
	in.Spec.ISO = &fleet.Volref{PoolID: pool, Volume: volume}
	return func() error { _, err := s.CreateVM(s.t.Context(), a, in); return err }
}

func TestTenantsCloneOnlyPublishedImages(t *testing.T) {
	s := newProjectFixture(t)
	dump, disc := "dump.raw", "tools.iso"
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.nfs, h, `{"name":"dump.raw","path":"/v/dump.raw","format":"raw","capacityBytes":100}`)
		s.addVolume(s.nfs, h, `{"name":"tools.iso","path":"/v/tools.iso","format":"iso","capacityBytes":100}`)
	}
	check := func(what string, shown bool, code fleet.ErrorCode) {
		t.Helper()
		for list, got := range map[string]string{
			"images": volumeNames(t)(s.Images(t.Context(), s.member)), "ISOs": volumeNames(t)(s.ISOs(t.Context(), s.member)),
			"volumes": volumeNames(t)(s.PoolVolumes(t.Context(), s.member, s.nfs)),
		} {
			want := shown && (list == "volumes" || list == "images")
			if strings.Contains(got, dump) != want {
				t.Errorf("%s: a member is offered the %s %q", what, list, got)
			}
			if want = shown && (list == "volumes" || list == "ISOs"); strings.Contains(got, disc) != want {
				t.Errorf("%s: a member is offered the %s %q", what, list, got)
			}
		}
		if code == "" {
			return
		}
		s.wantRefused(what+": clone", code, "no volume", s.cloneRequest(s.member, s.nfs, dump))
		s.wantRefused(what+": insert", code, "no volume", s.insertRequest(s.member, s.nfs, disc))
		v := s.createVM("vm-"+strings.ReplaceAll(what, " ", "-"), fleet.Stopped)
		s.wantRefused(what+": edit", code, "No volume", func() error {
			_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, func(to *fleet.VMSpec) { to.ISO = &fleet.Volref{PoolID: s.nfs, Volume: disc} }))
			return err
		})
	}
	check("not published", false, fleet.Invalid)
	if got := volumeNames(t)(s.Images(t.Context(), chief)); !strings.Contains(got, dump) {
		t.Errorf("an administrator is offered %q", got)
	}
	for _, volume := range []string{dump, disc} {
		if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.nfs, Volume: volume}); err != nil {
			t.Fatal(err)
		}
		s.auditActions("image.publish")
	}
	check("published", true, "")
	if err := s.cloneRequest(s.member, s.nfs, dump)(); err != nil {
		t.Errorf("a published image: %v", err)
	}
	if err := s.insertRequest(s.member, s.nfs, disc)(); err != nil {
		t.Errorf("a published ISO: %v", err)
	}
	for _, volume := range []string{dump, disc} {
		if err := s.WithdrawImage(t.Context(), chief, control.ImageFile{PoolID: s.nfs, Volume: volume}); err != nil {
			t.Fatal(err)
		}
		s.auditActions("image.withdraw")
	}
	check("withdrawn", false, fleet.Invalid)

	// VMs that already use the withdrawn image keep it.
	vms, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: "name:insert"})
	if err != nil || len(vms.Items) != 1 {
		t.Fatalf("%+v %v", vms.Items, err)
	}
	text := "still with its disc"
	got, _, err := s.UpdateVM(t.Context(), s.member, vms.Items[0].ID, control.UpdateVM{Description: &text, Spec: &vms.Items[0].Spec})
	if err != nil || got.Description != text || got.Spec.ISO == nil {
		t.Errorf("an edit of the description: %+v %v", got.Spec, err)
	}
}

func TestPublishRefusedForNonImages(t *testing.T) {
	s := newProjectFixture(t)
	vm := s.createVM("web", fleet.Stopped)
	for volume, says := range map[string]string{
		`{"name":"layer.qcow2","path":"/v/layer","format":"qcow2","backing":"/v/base"}`:                               "backing file",
		`{"name":"old.vmdk","path":"/v/old.vmdk","format":"vmdk"}`:                                                    "neither",
		`{"name":"gone-0123456789ab-1.qcow2","path":"/v/gone","format":"qcow2"}`:                                      "has the name of a VM's disk",
		`{"name":"other.raw","path":"/v/other.raw","format":"raw","usedBy":["11111111-1111-7111-8111-111111111111"]}`: "disk of the VM old-erp",
		`{"name":"extra.raw","path":"/v/extra.raw","format":"raw","usedBy":["` + string(vm.ID) + `"]}`:                "disk of the VM web",
		`{"name":"new.raw","path":"/v/new.raw","format":"raw","usedBy":["22222222-2222-7222-8222-222222222222"]}`:     "disk of the VM 2222",
		`{"name":"named.iso","path":"/v/named.iso","format":"raw","usedBy":["11111111-1111-7111-8111-111111111111"]}`: "disk of the VM old-erp",
	} {
		s.addVolume(s.local, s.h1, volume)
		name, _, _ := strings.Cut(strings.TrimPrefix(volume, `{"name":"`), `"`)
		s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, '11111111-1111-7111-8111-111111111111', 'old-erp', '{"power":"running"}') ON CONFLICT DO NOTHING`, s.h1)
		in := control.ImageFile{PoolID: s.local, Volume: name}
		s.wantRefused(name, fleet.Conflict, says, func() error { return s.PublishImage(t.Context(), chief, in) })
		// The volume is not offered even if it was published before it became unsuitable.
		s.publishImage(s.local, []fleet.HostID{s.h1}, name, "raw", 0)
		for kind, got := range map[string]string{"images": volumeNames(t)(s.Images(t.Context(), s.blueMember)), "ISOs": volumeNames(t)(s.ISOs(t.Context(), s.blueMember)), "volumes": volumeNames(t)(s.PoolVolumes(t.Context(), s.blueMember, s.local))} {
			if strings.Contains(got, name) {
				t.Errorf("a user of another project is offered the %s %q", kind, got)
			}
		}
		if !strings.Contains(says, "disk of the VM") {
			continue
		}
		s.wantRefused("clone "+name, fleet.Conflict, "disk of the VM", s.cloneRequest(chief, s.local, name))
	}
	s.wantRefused("a missing object", fleet.NotFound, "no volume", func() error {
		return s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: "nothing"})
	})
	s.wantRefused("withdraw an unpublished volume", fleet.NotFound, "not published", func() error {
		return s.WithdrawImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: "nothing"})
	})
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds'`)
	s.wantRefused("of an offline host", fleet.Conflict, "no online host", func() error {
		return s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: "debian.qcow2"})
	})
	for name, a := range map[string]fleet.Actor{"member": s.member, "viewer": s.addUser("val", fleet.RoleViewer)} {
		s.wantRefused(name+" publishes", fleet.Forbidden, "do not have permission", func() error {
			return s.PublishImage(t.Context(), a, control.ImageFile{PoolID: s.nfs, Volume: "debian.qcow2"})
		})
		s.wantRefused(name+" withdraws", fleet.Forbidden, "do not have permission", func() error {
			return s.WithdrawImage(t.Context(), a, control.ImageFile{PoolID: s.nfs, Volume: "debian.qcow2"})
		})
	}
}

// A file that changed after its publication is not offered.
func TestImageWithChangedFileIsNotOffered(t *testing.T) {
	s := newProjectFixture(t)
	for name, change := range map[string]string{"format": `{"format":"raw"}`, "size": `{"capacityBytes":5}`, "backing": `{"backing":"/v/x"}`} {
		image := name + ".qcow2"
		s.addVolume(s.local, s.h1, `{"name":"`+image+`","path":"/v/`+image+`","format":"qcow2","capacityBytes":100}`)
		if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: image, HostID: s.h1}); err != nil {
			t.Fatal(err)
		}
		if got := volumeNames(t)(s.Images(t.Context(), s.member)); !strings.Contains(got, image) {
			t.Fatalf("%s is not offered: %s", image, got)
		}
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', (SELECT jsonb_agg(CASE WHEN v->>'name' = $2 THEN v || $3::jsonb ELSE v END)
			FROM jsonb_array_elements(status->'volumes') v)) WHERE pool_id = $1`, s.local, image, change)
		if got := volumeNames(t)(s.Images(t.Context(), s.member)); strings.Contains(got, image) {
			t.Errorf("an image with a changed %s is offered: %s", name, got)
		}
		s.wantRefused("clone after a change of "+name, fleet.Invalid, "no volume", s.cloneRequest(s.member, s.local, image))
		all, err := s.PoolVolumes(t.Context(), chief, s.local)
		i := slices.IndexFunc(all, func(v query.VolumeOn) bool { return v.Name == image })
		if err != nil || i < 0 || all[i].Published == nil || all[i].Published.Stale == "" {
			t.Errorf("%s: an administrator does not see the reason: %+v %v", name, all, err)
		}
		if name == "backing" {
			continue
		}
		if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: image}); err != nil {
			t.Fatal(err)
		}
		if got := volumeNames(t)(s.Images(t.Context(), s.member)); !strings.Contains(got, image) {
			t.Errorf("%s is not offered after it was published again: %s", image, got)
		}
	}
}

// Local pools of two hosts may have different files of one name.
func TestLocalImagePublishedPerHost(t *testing.T) {
	s := newProjectFixture(t)
	pool := s.addPool("both", `{"kind":"dir","path":"/srv/both","shared":false}`, s.h1, s.h2)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(pool, h, `{"name":"same.raw","path":"/v/same.raw","format":"raw","capacityBytes":100}`)
	}
	if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: pool, Volume: "same.raw", HostID: s.h1}); err != nil {
		t.Fatal(err)
	}
	on := func(h fleet.HostID) func() error {
		in := control.CreateVM{ProjectID: s.red, HostID: h, Name: "on", Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: pool, Image: &fleet.Volref{PoolID: pool, Volume: "same.raw"}}}
		return func() error { _, err := s.CreateVM(t.Context(), s.member, in); return err }
	}
	s.wantRefused("the other host's file", fleet.Invalid, "o volume", on(s.h2))
	if err := on(s.h1)(); err != nil {
		t.Error(err)
	}
}

// A host's report on files counts only for its own files: it removes no image of another host and names no VM of
// another host.
func TestHostReportAffectsOnlyItsOwnImages(t *testing.T) {
	s := newProjectFixture(t)
	pool := s.addPool("both", `{"kind":"dir","path":"/srv/both","shared":false}`, s.h1, s.h2)
	vm := s.createVM("web", fleet.Stopped) // on h1
	s.addVolume(pool, s.h2, `{"name":"same.raw","path":"/v/same.raw","format":"raw","capacityBytes":100,"usedBy":["`+string(vm.ID)+`"]}`)
	s.addVolume(pool, s.h1, `{"name":"same.raw","path":"/v/same.raw","format":"raw","capacityBytes":100}`)
	if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: pool, Volume: "same.raw", HostID: s.h1}); err != nil {
		t.Error(err)
	}
	if got := volumeNames(t)(s.PoolVolumes(t.Context(), s.member, pool)); got != "cd.iso cd.iso debian.qcow2 debian.qcow2 same.raw" {
		t.Errorf("a member sees %s", got)
	}
}

// A file in the library is published through its image. Publishing the file would make a second image that every
// project sees.
func TestPublishRefusedForCopyOfImage(t *testing.T) {
	s := newProjectFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"own.qcow2","path":"/v/own.qcow2","format":"qcow2","capacityBytes":1048576}`)
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, "own.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE images SET project_id = $2 WHERE id = $1`, id, s.red)
	s.execSQL(`UPDATE image_grants SET project_id = $2 WHERE image_id = $1`, id, s.red)
	publish := func() error {
		return s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: "own.qcow2"})
	}
	before := s.stateSummary()
	if err := s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.local, Volume: "debian.qcow2"}); err != nil || s.stateSummary() != before {
		t.Errorf("a volume published to all projects already: %v", err)
	}
	s.wantRefused("a copy of a project's own image", fleet.Conflict, "is a copy of the image", publish)
	s.wantRefused("seen by another project", fleet.NotFound, "no such image", func() error { _, err := s.GetImage(t.Context(), s.blueMember, id); return err })

	// A file that replaced the image's file has other content and is a different image. It cannot be published while disks
	// are backed by the file.
	s.setReportedVolumeFields(storage.VolumeID{PoolID: s.local, Volume: "own.qcow2"}, s.h1, `{"capacityBytes":2097152}`)
	vm := s.createVM("on-it", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks}', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'd.qcow2', 'sizeBytes', 0, 'overlay', true,
		'image', jsonb_build_object('poolId', $2::text, 'volume', 'own.qcow2')))) WHERE id = $1`, vm.ID, s.local)
	s.wantRefused("a file that backs a disk", fleet.Conflict, "backed by own.qcow2", publish)
	s.execSQL(`DELETE FROM vms WHERE id = $1`, vm.ID)
	if err := publish(); err != nil {
		t.Error(err)
	}
}

// A volume that its host reports as damaged is refused by each use case that adds volumes to the library.
func TestPublishRefusedForDamagedImage(t *testing.T) {
	s := newProjectFixture(t)
	const why = "It is not sound: its data lies outside the file, which has 9 B. It may be cut off. Put a whole one in its place."
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.nfs, h, `{"name":"short.qcow2","path":"/v/short.qcow2","format":"qcow2","capacityBytes":100,"unsound":"`+why+`"}`)
	}
	s.wantRefused("publish it", fleet.Conflict, "short.qcow2 cannot be published. "+why, func() error {
		return s.PublishImage(t.Context(), chief, control.ImageFile{PoolID: s.nfs, Volume: "short.qcow2"})
	})
	s.wantRefused("make an image of it", fleet.Conflict, why, func() error {
		_, _, err := s.AddImage(t.Context(), chief, control.NewImage{Name: "short", Source: control.ImageSource{PoolID: s.nfs, Volume: "short.qcow2"}})
		return err
	})
	all, err := s.PoolVolumes(t.Context(), chief, s.nfs)
	if i := slices.IndexFunc(all, func(v query.VolumeOn) bool { return v.Name == "short.qcow2" }); err != nil || i < 0 || all[i].Unfit != why {
		t.Errorf("the volume list has %+v (%v)", all, err)
	}
}
