package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

func bulkEditOf(pairs ...string) vmedit.BulkEdit {
	e := vmedit.BulkEdit{Fields: map[string]json.RawMessage{}}
	for i := 0; i < len(pairs); i += 2 {
		e.Fields[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return e
}

func TestBulkEditChangesEachVMOnce(t *testing.T) {
	s := newProjectFixture(t)
	// The member's role is read from the database when the child runs.
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	on, off, so := s.createVM("on", fleet.Running), s.createVM("off", fleet.Stopped), s.createVM("so", fleet.Stopped)
	prod := "prod"
	edit := bulkEditOf("cpus", "3")
	edit.Labels = map[string]*string{"env": &prod, "old": nil}
	if _, _, err := s.UpdateVM(t.Context(), chief, so.ID, control.UpdateVM{Labels: map[string]string{"env": "prod"}, Spec: &fleet.VMSpec{Power: fleet.Stopped, CPUs: 3, MemoryMiB: 256, Firmware: fleet.BIOS, Disks: so.Spec.Disks, NICs: so.Spec.NICs}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.UpdateVM(t.Context(), chief, off.ID, control.UpdateVM{Labels: map[string]string{"old": "yes", "keep": "me"}}); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE state = 'queued'`)
	gone := fleet.NewID[fleet.VMID]()
	ids := []fleet.VMID{on.ID, off.ID, so.ID, gone, on.ID}

	before := s.stateSummary()
	p, err := s.PreviewEdit(t.Context(), s.member, ids, edit)
	if err != nil || p.Now != 1 || p.NextBoot != 1 || p.Same != 1 || len(p.Refused) != 1 || p.Refused[0].Why != "There is no such VM." || s.stateSummary() != before {
		t.Fatalf("the preview is %+v, %v", p, err)
	}
	task, err := s.EditVMs(t.Context(), s.member, ids, edit)
	if err != nil || task.Kind != fleet.VMApply || task.SubjectName != "4 VMs" {
		t.Fatalf("the task is %+v, %v", task, err)
	}
	for range 2 { // the second run finds no pending child
		if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids[:3] {
		v := s.getVM(id)
		if v.Spec.CPUs != 3 || v.Labels["env"] != "prod" || v.Labels["old"] != "" || (id == off.ID) != (v.Labels["keep"] == "me") {
			t.Errorf("%s became %+v %v", v.Name, v.Spec, v.Labels)
		}
	}
	if got := s.getVM(on.ID).Generation; got != on.Generation+1 {
		t.Errorf("one edit raises the generation from %d to %d", on.Generation, got)
	}
	var children []string
	rows, err := s.pool.Query(t.Context(), `SELECT subject_name || ' ' || state || ' ' || note || error FROM tasks WHERE parent_id = $1 ORDER BY subject_name`, task.ID)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		children = append(children, strings.TrimSpace(text))
	}
	want := []string{string(gone) + " failed There is no such VM.", "off queued", "on queued", "so done It is so already."}
	if fmt.Sprint(children) != fmt.Sprint(want) {
		t.Errorf("the children are %q, want %q", children, want)
	}
}

func TestBulkEditChecksEachVM(t *testing.T) {
	s := newProjectFixture(t)
	// The member's role is read from the database when the child runs.
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	mine, others := s.createVM("mine", fleet.Running), s.createVM("others", fleet.Stopped)
	s.execSQL(`UPDATE vms SET project_id = $1 WHERE id = $2`, s.blue, others.ID)
	ids := []fleet.VMID{mine.ID, others.ID}
	p, err := s.PreviewEdit(t.Context(), s.member, ids, bulkEditOf("firmware", `"uefi"`))
	if err != nil || len(p.Refused) != 2 || !strings.Contains(p.Refused[0].Why, "only while the VM is off") || p.Refused[1].Name != string(others.ID) || p.Refused[1].Why != "There is no such VM." {
		t.Errorf("a member reads %+v, %v", p, err)
	}
	p, err = s.PreviewEdit(t.Context(), s.member, ids[:1], bulkEditOf("memory.locked", "true"))
	if err != nil || len(p.Refused) != 1 || !strings.Contains(p.Refused[0].Why, "Only those who may change infrastructure") {
		t.Errorf("a reserved field: %+v, %v", p, err)
	}
	if _, err := s.EditVMs(t.Context(), s.member, ids, bulkEditOf("cpus", "2")); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(others.ID).Spec.CPUs; got != 1 {
		t.Errorf("another project's VM has %d vCPUs", got)
	}

	bulkOrder := make([]fleet.VMID, 501)
	for i := range bulkOrder {
		bulkOrder[i] = fleet.NewID[fleet.VMID]()
	}
	bad := "not a value\n"
	for name, c := range map[string]struct {
		a    fleet.Actor
		ids  []fleet.VMID
		edit vmedit.BulkEdit
		code fleet.ErrorCode
		says string
	}{
		"nobody":             {fleet.Actor{}, ids, bulkEditOf("cpus", "2"), fleet.Unauthorized, ""},
		"who may look":       {s.viewer, ids, bulkEditOf("cpus", "2"), fleet.Forbidden, ""},
		"no VMs":             {s.member, nil, bulkEditOf("cpus", "2"), fleet.Malformed, "Select VMs first"},
		"too many":           {s.member, bulkOrder, bulkEditOf("cpus", "2"), fleet.TooLarge, "at most 500"},
		"no id":              {s.member, []fleet.VMID{"x"}, bulkEditOf("cpus", "2"), fleet.Malformed, "UUID"},
		"nothing":            {s.member, ids, vmedit.BulkEdit{}, fleet.Invalid, "Choose a field or a label to change."},
		"disks":              {s.member, ids, bulkEditOf("disks", "[]"), fleet.Invalid, "cannot be edited for several VMs at once."},
		"NICs":               {s.member, ids, bulkEditOf("nics", "[]"), fleet.Invalid, "cannot be edited for several VMs at once."},
		"power":              {s.member, ids, bulkEditOf("power", `"running"`), fleet.Invalid, "cannot be edited for several VMs at once."},
		"a field of nobody":  {s.member, ids, bulkEditOf(strings.Repeat("x", 9000), "1"), fleet.Invalid, "cannot be edited for several VMs at once."},
		"words for a number": {s.member, ids, bulkEditOf("cpus", `"many"`), fleet.Invalid, "not a valid value for vCPUs"},
		"more than a value":  {s.member, ids, bulkEditOf("cpus", `{"a":1}`), fleet.Invalid, "not a valid value for vCPUs"},
		"a wrong label":      {s.member, ids, vmedit.BulkEdit{Labels: map[string]*string{"a b": &bad}}, fleet.Invalid, ""},
	} {
		s.wantRefused(name, c.code, c.says, func() error { _, err := s.EditVMs(t.Context(), c.a, c.ids, c.edit); return err })
		s.wantRefused(name+", asked first", c.code, c.says, func() error { _, err := s.PreviewEdit(t.Context(), c.a, c.ids, c.edit); return err })
	}
}
