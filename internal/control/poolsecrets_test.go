package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

const testPoolSecret = "a-secret-of-storage"

var targetSpec = fleet.PoolSpec{
	Kind: fleet.PoolISCSIDirect, Portal: "10.0.0.5", Target: "iqn.2026-01.org.example:vms", Initiator: "iqn.2026-01.org.example:quantix", User: "quantix",
}

// poolWithSecret returns a pool with credentials.
func (w *authzFixture) poolWithSecret() fleet.PoolID {
	w.t.Helper()
	spec, name := targetSpec, w.uniqueName("san")
	spec.Target += "." + name
	v, err := w.CreatePool(w.t.Context(), chief, storage.CreatePool{Name: name, Spec: spec, Secret: testPoolSecret, HostIDs: []fleet.HostID{w.h1}})
	if err != nil {
		w.t.Fatal(err)
	}
	return v.ID
}

// tablesContaining lists the tables that contain the text in any column, including binary columns.
func (s *projectFixture) tablesContaining(text string) string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c
		JOIN information_schema.tables t USING (table_schema, table_name) WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'`)
	if err != nil {
		s.t.Fatal(err)
	}
	var ask []string
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			s.t.Fatal(err)
		}
		as := fmt.Sprintf("%q::text", column)
		if kind == "bytea" {
			as = fmt.Sprintf("encode(%q, 'escape')", column)
		}
		ask = append(ask, fmt.Sprintf("SELECT '%s.%s' AS at FROM %q WHERE %s LIKE '%%' || $1 || '%%'", table, column, table, as))
	}
	if rows.Err() != nil || len(ask) < 100 {
		s.t.Fatal(rows.Err(), len(ask))
	}
	var found string
	if err := s.pool.QueryRow(s.t.Context(), "SELECT COALESCE(string_agg(DISTINCT at, ' '), '') FROM ("+strings.Join(ask, " UNION ALL ")+") x", text).Scan(&found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// The secret is sent only to hosts with the pool assigned. No column, response, job or audit line has it.
func TestPoolSecretReadableOnlyByPoolsHosts(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	san, err := s.CreatePool(ctx, chief, storage.CreatePool{Name: "san", Spec: targetSpec, Secret: testPoolSecret, HostIDs: []fleet.HostID{s.h1}})
	if err != nil {
		t.Fatal(err)
	}
	if !san.Spec.Shared || strings.Contains(fmt.Sprintf("%+v", san), testPoolSecret) {
		t.Errorf("the pool gets as %+v", san)
	}
	h1, h2 := fleet.Actor{HostID: s.h1}, fleet.Actor{HostID: s.h2}
	has := func(a fleet.Actor, want string) {
		t.Helper()
		got, err := s.PoolSecret(ctx, a, san.ID)
		if want == "" && (fleet.CodeOf(err) != fleet.NotFound || got.Secret != "") || want != "" && (err != nil || got.Secret != want) {
			t.Errorf("%s gets %q, %v, want %q", a.HostID, got.Secret, err, want)
		}
	}
	has(h1, testPoolSecret)
	has(h2, "")
	if at := s.tablesContaining(testPoolSecret); at != "" {
		t.Errorf("the secret is in %s", at)
	}

	subject := fleet.SubjectPool(san.ID)
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, subject)
	s.execSQL(`UPDATE tasks SET state = 'done', ended_at = now() WHERE subject = $1`, subject)
	tasks, err := s.ChangePoolSecret(ctx, chief, san.ID, testPoolSecret+"-2")
	if err != nil || len(tasks) != 1 {
		t.Fatalf("changed: %v, %v", tasks, err)
	}
	has(h1, testPoolSecret+"-2")
	if got := s.jobList(subject); got != "pool.apply done, pool.apply queued" {
		t.Errorf("the hosts' jobs are: %s", got)
	}
	if v := s.poolView(chief, san.ID); v.Generation != 2 {
		t.Errorf("offline hosts will not set the pool up again: generation %d", v.Generation)
	}
	if at := s.tablesContaining(testPoolSecret); at != "" {
		t.Errorf("the new secret is in %s", at)
	}
	if lines := s.auditActions("pool."); !strings.Contains(lines, "credentials san") || strings.Contains(lines, testPoolSecret) {
		t.Errorf("the audit says %s", lines)
	}

	if _, err := s.Release(ctx, chief, subject, s.h1); err != nil {
		t.Fatal(err)
	}
	has(h1, "")

	// A portal with another key cannot decrypt the secret, and neither can a reader of the database, who has no key.
	s.execSQL(`UPDATE assignments SET asked = 'assign' WHERE pool_id = $1`, san.ID)
	other := control.New(s.pool, control.Options{Hub: notify.NewHub(), Vault: auth.NewVault()})
	if _, err := other.PoolSecret(ctx, h1, san.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a portal with another key: %v", err)
	}
	keyless := control.New(s.pool, control.Options{Hub: notify.NewHub()})
	if _, err := keyless.ChangePoolSecret(ctx, chief, san.ID, testPoolSecret); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "secretsKey") {
		t.Errorf("a portal without a key: %v", err)
	}
	// An encrypted secret copied to another pool's row cannot be decrypted.
	s.execSQL(`INSERT INTO pool_secrets (pool_id, by_key, sealed, set_by) SELECT $2, by_key, sealed, set_by FROM pool_secrets WHERE pool_id = $1`, san.ID, s.nfs)
	if got, err := s.PoolSecret(ctx, h1, s.nfs); err == nil {
		t.Errorf("another pool's row opens as %q", got.Secret)
	}
}

func TestInvalidPoolCredentialsRefused(t *testing.T) {
	s := newProjectFixture(t)
	create := func(secret string, change func(*fleet.PoolSpec)) func() error {
		spec := targetSpec
		change(&spec)
		return func() error {
			_, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "san", Spec: spec, Secret: secret, HostIDs: []fleet.HostID{s.h1}})
			return err
		}
	}
	same := func(*fleet.PoolSpec) {}
	s.wantRefused("no secret", fleet.Invalid, "Enter the secret of quantix", create("", same))
	s.wantRefused("no user", fleet.Invalid, "Enter the user name", create(testPoolSecret, func(p *fleet.PoolSpec) { p.User = "" }))
	s.wantRefused("two lines", fleet.Invalid, "A password is one line of at most 255", create("one\ntwo", same))
	s.wantRefused("a kind without support", fleet.Invalid, "has no secret", create(testPoolSecret, func(p *fleet.PoolSpec) { *p = fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/x"} }))
	s.wantRefused("an invalid Ceph key", fleet.Invalid, "This is not a Ceph key", create(testPoolSecret, func(p *fleet.PoolSpec) {
		*p = fleet.PoolSpec{Kind: fleet.PoolRBD, Monitors: "10.0.0.1", CephPool: "vms", User: "libvirt"}
	}))
	s.wantRefused("a path", fleet.Invalid, "has no directory", create(testPoolSecret, func(p *fleet.PoolSpec) { p.Path = "/srv/x" }))
	s.wantRefused("a pool of files", fleet.Conflict, "Pools of this kind have no credentials.", func() error {
		_, err := s.ChangePoolSecret(t.Context(), chief, s.nfs, testPoolSecret)
		return err
	})
	if _, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "first", Spec: targetSpec, Secret: testPoolSecret, HostIDs: []fleet.HostID{s.h1}}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("the target twice on a host", fleet.Invalid, "Pool first uses iqn.2026-01.org.example:vms on h1", create(testPoolSecret, func(p *fleet.PoolSpec) {
		p.Kind, p.Initiator = fleet.PoolISCSI, ""
	}))
}

// An administrator can attach a LUN with its content to one VM. A LUN cannot become an image, and is not deleted with
// its VM.
func TestLUNBelongsToOneVM(t *testing.T) {
	s := newProjectFixture(t)
	san := s.addPool("san", `{"kind":"iscsi-direct","path":"","portal":"10.0.0.5","target":"iqn.2026-01.org.example:vms","shared":true}`, s.h1, s.h2)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', '[
			{"name":"unit:0:0:1","path":"iscsi:iqn.2026-01.org.example:vms/1","format":"lun","capacityBytes":1073741824},
			{"name":"unit:0:0:2","path":"iscsi:iqn.2026-01.org.example:vms/2","format":"lun","capacityBytes":1073741824}]') WHERE pool_id = $1 AND host_id = $2`, san, h)
	}
	lun := func(name string) fleet.Disk { return fleet.Disk{PoolID: san, Volume: name, Existing: true} }
	create := func(a fleet.Actor, name string, disks ...fleet.Disk) func() error {
		in := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: smallSpec}
		if a.UserID == s.member.UserID {
			in.HostID = ""
		}
		in.Spec.Disks = disks
		return func() error { _, err := s.CreateVM(t.Context(), a, in); return err }
	}
	if got := volumeNames(t)(s.LUNs(t.Context(), chief)); got != "unit:0:0:1 unit:0:0:2" {
		t.Errorf("to choose from: %s", got)
	}
	if err := create(chief, "db", lun("unit:0:0:1"))(); err != nil {
		t.Fatal(err)
	}
	if got := volumeNames(t)(s.LUNs(t.Context(), chief)); got != "unit:0:0:2" {
		t.Errorf("then: %s", got)
	}
	all, err := s.Media(t.Context(), chief)
	for _, v := range append(all.Images, all.ISOs...) {
		if v.PoolID == san || err != nil {
			t.Errorf("%s is offered as an image: %v", v.Name, err)
		}
	}
	s.wantRefused("the same LUN", fleet.Invalid, "unit:0:0:1 is a disk of the VM db already", create(chief, "other", lun("unit:0:0:1")))
	s.wantRefused("one LUN twice", fleet.Invalid, "another disk of this VM", create(chief, "other", lun("unit:0:0:2"), lun("unit:0:0:2")))
	s.wantRefused("no such LUN", fleet.Invalid, "has no volume", create(chief, "other", lun("unit:0:0:9")))
	s.wantRefused("a tenant", fleet.Invalid, "Only those who may change infrastructure may attach", create(s.member, "other", lun("unit:0:0:2")))
	s.wantRefused("a new disk there", fleet.Invalid, "makes no volumes", create(chief, "other", fleet.Disk{PoolID: san, SizeBytes: 1 << 30}))
	s.wantRefused("an existing volume as exclusive disk", fleet.Invalid, "makes a volume for each disk", create(chief, "other", fleet.Disk{PoolID: s.nfs, Volume: "debian.qcow2", Existing: true}))
	s.wantRefused("with a size", fleet.Invalid, "A disk on an existing volume has the size of the volume", create(chief, "other", fleet.Disk{PoolID: san, Volume: "unit:0:0:2", Existing: true, SizeBytes: 1}))
	s.wantRefused("a copy of a LUN", fleet.Invalid, "cannot be cloned", create(chief, "other", fleet.Disk{PoolID: s.nfs, Image: &fleet.Volref{PoolID: san, Volume: "unit:0:0:2"}}))

	of := storage.VolumeID{PoolID: san, Volume: "unit:0:0:2"}
	for act, do := range s.volumeRequests(of) {
		s.wantRefused(string(act)+" a LUN", fleet.Conflict, "The volume is a LUN, which other systems may", do)
	}
	s.wantRefused("a new volume", fleet.Conflict, "Quantix cannot make volumes", func() error {
		_, err := s.CreateVolume(t.Context(), chief, san, storage.NewVolume{Name: "x", Format: "raw", SizeBytes: 1 << 20})
		return err
	})
}

// Disks in a block pool are raw and start empty.
func TestDiskInBlockPoolIsRawAndEmpty(t *testing.T) {
	s := newProjectFixture(t)
	ceph := s.addPool("ceph", `{"kind":"rbd","path":"","monitors":"10.0.0.1","cephPool":"vms","shared":true}`, s.h1)
	s.execSQL(`UPDATE assignments SET status = status - 'volumes' || '{"capacityBytes":0,"availableBytes":0}' WHERE pool_id = $1`, ceph)
	in := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "db", Spec: smallSpec}
	in.Spec.Disks = []fleet.Disk{{PoolID: ceph, SizeBytes: 1 << 30}}
	vm, err := s.CreateVM(t.Context(), chief, in)
	if err != nil || !strings.HasSuffix(vm.Spec.Disks[0].Volume, "-1.raw") || !fleet.IsVMDiskName(vm.Spec.Disks[0].Volume) {
		t.Fatalf("%+v, %v", vm.Spec.Disks, err)
	}
	s.wantRefused("a copy of an image", fleet.Invalid, "begin empty", func() error {
		in.Name, in.Spec.Disks = "copy", []fleet.Disk{{PoolID: ceph, Image: &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"}}}
		_, err := s.CreateVM(t.Context(), chief, in)
		return err
	})
	for what, in := range map[string]storage.NewVolume{"qcow2": {Name: "x", Format: "qcow2", SizeBytes: 1}} {
		s.wantRefused(what, fleet.Invalid, "are raw", func() error { _, err := s.CreateVolume(t.Context(), chief, ceph, in); return err })
	}
	s.wantRefused("a download", fleet.Conflict, "only be stored in file pools", func() error {
		_, err := s.FetchVolume(t.Context(), chief, ceph, storage.NewDownload{Name: "x", URL: "https://example.org/x"})
		return err
	})
}
