package control_test

import (
	"context"
	"encoding/json"
	"time"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func none(*authzFixture) []any        { return nil }
func readUseCase(*authzFixture) []any { return []any{fleet.Query{}} }

// useCases has an entry for every exported method of control.Control, including embedded ones.
var useCases = mergeCases(peopleCases, infraCases)

// peopleCases has the entries for objects of projects and users, infraCases those for infrastructure.
var peopleCases = map[string]useCase{
	// VMs of project red.
	"FirstBoot":    {may: redUse, with: func(w *authzFixture) []any { return []any{w.vmWithFirstBoot()} }},
	"SetFirstBoot": {may: redUse, with: func(w *authzFixture) []any { return []any{w.vmWithoutFirstBoot(), *hostnameFirstBoot("a")} }},

	// Customization specs of project red.
	"CreateCustomization": {may: redUse, with: func(w *authzFixture) []any { return []any{w.customization()} }},
	"UpdateCustomization": {may: redUse, with: func(w *authzFixture) []any { in := w.customization(); return []any{w.addCustomization(in).ID, in} }},
	"DeleteCustomization": {may: redUse, with: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"GetCustomization":    {may: redSeen, with: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"ListCustomizations":  {may: somewhere, with: none},
	"ActVM":               {may: redUse, with: func(w *authzFixture) []any { return []any{w.vm(), fleet.ActShutdown} }},
	"CreateVM": {may: redUse, with: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"OrderVM": {may: redUse, with: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"DeleteVM": {may: redUse, with: func(w *authzFixture) []any { return []any{w.vm(), false, ""} }},
	"GetVM":    {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"UpdateVM": {may: redUse, with: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanVM": {may: except(redUse, "system"), with: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanNewVM": {may: except(redUse, "system"), with: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"GetPlan": {may: mia, with: func(w *authzFixture) []any { return []any{w.plan()} }},
	"PreviewVM": {may: redUse, with: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"PlanOrder":  {may: mia, with: func(w *authzFixture) []any { return []any{w.plan()} }},
	"CarryOut":   {may: mia, with: func(w *authzFixture) []any { return []any{w.plan()} }},
	"DetachDisk": {may: redUse, with: func(w *authzFixture) []any { id, disk := w.faultyVM(); return []any{id, disk} }},
	"ReplaceDisk": {may: redUse, with: func(w *authzFixture) []any {
		id, disk := w.faultyVM()
		return []any{id, disk, control.NewDisk{Volume: w.name("new") + ".qcow2", SizeBytes: 1 << 20}}
	}},
	"GrowDisk": {may: redUse, with: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.GrowDisk{SizeBytes: 2 << 30}}
	}},
	"MoveDisk": {may: infraChange, with: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.MoveDisk{PoolID: w.local}}
	}},
	"TakeSnapshot": {may: redUse, with: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, control.NewSnapshot{Name: "before"}}
	}},
	"RevertSnapshot": {may: redUse, with: func(w *authzFixture) []any {
		id, snapshot := w.withSnapshots()
		return []any{id, snapshot, control.RevertSnapshot{}}
	}},
	"DeleteSnapshot":    {may: redUse, with: func(w *authzFixture) []any { id, snapshot := w.withSnapshots(); return []any{id, snapshot, true} }},
	"ConsolidateVM":     {may: redUse, with: func(w *authzFixture) []any { id, _ := w.withSnapshots(); return []any{id} }},
	"SnapshotSchedules": {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AddSnapshotSchedule": {may: redUse, with: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, hourly}
	}},
	"EditSnapshotSchedule":   {may: redUse, with: func(w *authzFixture) []any { id, schedule := w.vmWithSchedule(); return []any{id, schedule, hourly} }},
	"DeleteSnapshotSchedule": {may: redUse, with: func(w *authzFixture) []any { id, schedule := w.vmWithSchedule(); return []any{id, schedule} }},
	"SnapshotWork":           {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"CloneName":              {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"ExportVM": {may: redUse, with: func(w *authzFixture) []any {
		w.exec(`DELETE FROM exports`) // the number of exports per project is limited
		return []any{w.stoppedVMWithDisk(), control.NewExport{Format: "ova"}}
	}},
	"ListExports":  {may: redUse, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"GetExport":    {may: redUse, with: func(w *authzFixture) []any { return []any{w.export()} }},
	"DeleteExport": {may: redUse, with: func(w *authzFixture) []any { return []any{w.export()} }},
	"ReadExport":   {may: except(redUse, "system"), with: func(w *authzFixture) []any { return []any{w.export()} }},
	"ImageOfDisk": {may: redUse, with: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		w.exec(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, disk, control.DiskImage{Name: w.name("image")}}
	}},
	"CreateVMs": {may: except(redUse, "system"), with: func(w *authzFixture) []any {
		return []any{control.CreateVMs{CreateVM: control.CreateVM{ProjectID: w.red, Name: w.name("many") + "-{n}", Spec: smallSpec}, BulkNames: fleet.BulkNames{Count: 2}}}
	}},

	// Templates of project red.
	"AddTemplate": {may: redUse, with: func(w *authzFixture) []any {
		return []any{control.NewTemplate{Name: w.name("template"), OfVM: w.vmWithoutDisks()}}
	}},
	"AddTemplateVersion": {may: redUse, with: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.vmWithoutDisks()} }},
	"EditTemplate": {may: redUse, with: func(w *authzFixture) []any {
		return []any{w.template().TemplateID, control.EditTemplate{Description: new("tidy")}}
	}},
	"DeprecateTemplateVersion": {may: redUse, with: func(w *authzFixture) []any { return []any{w.template(), true} }},
	"DeleteTemplateVersion":    {may: redUse, with: func(w *authzFixture) []any { of := w.template(); return []any{of, string(of.TemplateID)} }},
	"DeleteTemplate":           {may: redUse, with: func(w *authzFixture) []any { id := w.template().TemplateID; return []any{id, string(id)} }},
	"GetTemplate":              {may: redSeen, with: func(w *authzFixture) []any { return []any{w.template().TemplateID} }},
	"ListTemplates":            {may: somewhere, with: readUseCase},
	"GrantTemplate":            {may: infraChange, with: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.blue} }},
	"RevokeTemplate":           {may: infraChange, with: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.red} }},
	"MigrateVM": {may: infraChange, with: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		w.exec(`UPDATE vms SET spec = spec || '{"power":"stopped"}', status = status || '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, control.MigrateVM{HostID: w.h2}}
	}},
	"MigrationTargets": {may: infraChange, with: func(w *authzFixture) []any { id, _ := w.vmWithDisk(); return []any{id} }},
	"LeavingVM":        {may: infraChange, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"MoveTargets":      {may: infraChange, with: func(w *authzFixture) []any { id, disk := w.vmWithDisk(); return []any{id, disk} }},
	"MovingDisks":      {may: infraChange, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AcceptDrift": {may: redUse, with: func(w *authzFixture) []any {
		id, _ := w.faultyVM()
		return []any{id, map[string]string{"cpus": "2 vCPUs"}}
	}},
	"Reapply": {may: redUse, with: func(w *authzFixture) []any { id, _ := w.faultyVM(); return []any{id} }},
	"GuardVM": {may: redUse, with: func(w *authzFixture) []any { return []any{w.vm(), control.ProtectVM{Protected: true}} }},
	"VMGuest": {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"ActGuest": {may: redUse, with: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		return []any{id, control.GuestOrder{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"}}
	}},
	"VMRetry":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMEvents":    {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMMeter":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"OpenConsole": {may: except(redUse, "system"), with: func(w *authzFixture) []any { return []any{w.vm()} }},
	// Use cases that run inside Once check their own permissions.
	"Once": {may: except(persons, "system") + " system?", with: func(w *authzFixture) []any {
		do := func(context.Context) ([]byte, error) { return []byte("answer"), nil }
		return []any{control.Key{Name: w.name("key"), Request: []byte("request"), Secret: auth.NewSecret(auth.TokenPrefix)}, do}
	}},
	"RedeemConsole": {may: mia, with: func(w *authzFixture) []any {
		id, secret := w.console()
		return []any{id, secret}
	}},
	"GetTask": {may: redSeen, with: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},
	"GuestRun": {may: redUse, with: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET spec = spec || '{"policy":{"guestExec":true}}', status = status || '{"guest":{"agent":"answers"},"policy":{"guestExec":true}}' WHERE id = $1`, id)
		task, err := w.ActGuest(w.t.Context(), chief, id, control.GuestOrder{Action: fleet.ActExec, Program: "ls"})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{task.ID}
	}},
	"CancelTask": {may: redUse, with: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},

	// Lists, filtered to what the actor sees.
	"Complete":     {may: somewhere, with: func(w *authzFixture) []any { w.vm(); return []any{"vms", "red"} }},
	"ListProjects": {may: somewhere, with: readUseCase},
	"ListTasks":    {may: somewhere, with: func(w *authzFixture) []any { w.job("queued"); return readUseCase(w) }},
	"ListVMs":      {may: somewhere, with: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMRows":   {may: somewhere, with: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMLines":  {may: somewhere, with: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"Overview":     {may: somewhere, with: func(w *authzFixture) []any { w.job("queued"); return nil }},
	"RunningTasks": {may: somewhere, with: none},
	"Search":       {may: somewhere, with: func(w *authzFixture) []any { w.vm(); return []any{"red", 8} }},
	"Layout":       {may: somewhere, with: func(w *authzFixture) []any { return []any{fleet.Query{}, query.TreeQuery{View: "vms"}} }},
	"Tree":         {may: somewhere, with: func(w *authzFixture) []any { return []any{query.TreeQuery{View: "vms"}} }},
	"VMTotals":     {may: somewhere, with: none},
	"EditVMs": {may: except(someUse, "system"), with: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, fleet.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"PreviewEdit": {may: except(someUse, "system"), with: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, fleet.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"DeleteVMs": {may: except(someUse, "system"), with: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}, false} }},
	"SnapshotVMs": {may: except(someUse, "system"), with: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.NewSnapshot{Name: "a"}}
	}},
	"MigrateVMs": {may: except(infraChange, "system"), with: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.MigrateVM{HostID: w.h2}}
	}},
	"NamedVMs": {may: except(someUse, "system"), with: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	// Permission is checked for each VM: see TestBulkActionChecksPermissionPerVM.
	"ActVMs": {may: except(someUse, "system"), with: func(w *authzFixture) []any {
		return []any{fleet.ActShutdown, []fleet.VMID{w.vm()}}
	}},

	// Users and projects.
	"CreateJoinToken": {may: managers, with: func(*authzFixture) []any { return []any{fleet.HostID("")} }},
	"CreateProject":   {may: managers, with: func(w *authzFixture) []any { return []any{identity.ProjectInput{Name: w.name("project")}} }},
	"CreateUser":      {may: managers, with: func(w *authzFixture) []any { return []any{identity.UserInput{Name: w.name("user")}} }},
	"DeleteProject":   {may: managers, with: func(w *authzFixture) []any { return []any{w.project(w.name("project"))} }},
	"DeleteUser":      {may: managers, with: func(w *authzFixture) []any { return []any{w.someUser()} }},
	"GetProject":      {may: redSeen, with: func(w *authzFixture) []any { return []any{w.red} }},
	"GetUser":         {may: mia + " " + managers, with: func(*authzFixture) []any { return []any{fleet.UserID("mia")} }},
	"ListJoinTokens":  {may: managers, with: readUseCase},
	"ListMembers":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.red} }},
	"ListUsers":       {may: managers, with: readUseCase},
	"RevokeJoinToken": {may: managers, with: func(w *authzFixture) []any { return []any{w.joinToken().ID} }},
	"SetMember":       {may: managers, with: func(w *authzFixture) []any { return []any{w.red, w.someUser(), fleet.RoleViewer} }},
	"SetPassword":     {may: managers, with: func(w *authzFixture) []any { return []any{w.someUser(), "violet lantern harbour"} }},
	"UpdateProject":   {may: managers, with: func(w *authzFixture) []any { return []any{w.blue, identity.ProjectInput{Name: "blue"}} }},
	"UpdateUser":      {may: managers, with: func(w *authzFixture) []any { return []any{w.someUser(), identity.UserInput{Name: w.name("user")}} }},

	// The actor's own account.
	"ChangePassword": {may: except(persons, "system"), with: func(*authzFixture) []any { return []any{goodPassword, "violet lantern harbour", false} }},
	"CreateToken":    {may: except(persons, "newcomer", "system"), with: func(*authzFixture) []any { return []any{"a token", time.Hour} }},
	"DeleteToken": {may: mia, with: func(w *authzFixture) []any {
		return []any{fleet.TokenID(w.insertForMia(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'mia', 'her own', convert_to($1, 'UTF8'))`))}
	}},
	"DeleteView": {may: mia, with: func(w *authzFixture) []any {
		return []any{fleet.ViewID(w.insertForMia(`INSERT INTO saved_views (id, user_id, list, name, query) VALUES ($1, 'mia', 'vms', $1, '')`))}
	}},
	"ListTokens": {may: persons, with: readUseCase},
	"ListViews":  {may: persons, with: func(*authzFixture) []any { return []any{"vms"} }},
	"SaveView":   {may: except(persons, "system"), with: func(*authzFixture) []any { return []any{"vms", "mine", "filter=phase:running"} }},
	"CPUModels":  {may: somewhere, with: none},
	"WatchKeys": {may: persons, with: func(w *authzFixture) []any {
		return []any{[]string{"vm:" + string(w.vm()), "host:" + string(w.h1), "tasks"}}
	}},

	// Authentication.
	"ActorOfToken": {
		may: everybody,
		with: func(w *authzFixture) []any {
			secret := auth.NewSecret(auth.TokenPrefix)
			w.exec(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'wes', 'his', $2)`, fleet.NewID[fleet.TokenID](), auth.HashSecret(secret))
			return []any{secret}
		},
		without: func(*authzFixture) []any { return []any{auth.NewSecret(auth.TokenPrefix)} },
	},
	"JoinHost": {
		may: everybody,
		with: func(w *authzFixture) []any {
			return []any{w.joinToken().Secret, wire.JoinRequest{Name: w.name("joined"), HostUUID: string(fleet.NewID[fleet.HostID]()), CSR: someCSR()}}
		},
		without: func(w *authzFixture) []any {
			return []any{auth.NewSecret("qxj_"), wire.JoinRequest{Name: w.name("joined"), CSR: someCSR()}}
		},
	},
	"SignIn": {
		may:  everybody,
		with: func(w *authzFixture) []any { return []any{string(w.someUser()), goodPassword} },
		without: func(w *authzFixture) []any {
			w.exec(`DELETE FROM login_throttle`)
			return []any{string(w.someUser()), "not the password"}
		},
	},

	// Agents, each for its own host. Calls that a portal never makes as a host are not tested.
	"Hello": {may: agents, with: func(w *authzFixture) []any {
		return []any{wire.Hello{Instance: w.name("instance"), Fingerprint: "f"}}
	}},
	"Claim": {may: agents, with: func(w *authzFixture) []any {
		w.newSessions()
		w.exec(`DELETE FROM jobs`)
		return []any{wire.ClaimRequest{Max: 1}, time.Duration(0)}
	}},
	"NewJobWaiter": {may: agents, with: func(*authzFixture) []any { return nil }},
	"Report": {may: agents, with: func(w *authzFixture) []any {
		w.newSessions()
		return []any{wire.Report{Seq: w.seq(), Digest: "d", State: &wire.State{Host: fleet.HostStatus{Connected: true}}}}
	}},
	"Progress": {may: ownAgent, with: func(w *authzFixture) []any {
		w.newSessions()
		return []any{w.job("running"), wire.Progress{Epoch: 7, Percent: 50}}
	}},
	"Finish": {may: ownAgent, with: func(w *authzFixture) []any {
		w.newSessions()
		return []any{w.job("running"), wire.Finish{Epoch: 7, Generation: 1, Seq: w.seq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}
	}},
	"FinishAll": {may: ownAgent, with: func(w *authzFixture) []any {
		w.newSessions()
		return []any{[]wire.Result{{Job: w.job("running"), Finish: wire.Finish{Epoch: 7, Generation: 1, Seq: w.seq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}}}
	}},
	"Meet": {may: ownAgent, with: func(w *authzFixture) []any {
		w.newSessions()
		id, job, other := fleet.NewID[fleet.TransferID](), w.job("running"), w.someHost()
		w.exec(`INSERT INTO transfers (id, send_job, receive_job, from_host, to_host) VALUES ($1, $2, $2, $3, $4)`, id, job, w.h1, other)
		return []any{id, wire.Meet{Job: job, Epoch: 7}}
	}},
	"JoinPair": {may: ownAgent, with: func(w *authzFixture) []any {
		w.newSessions()
		id, secret := w.console()
		if _, err := w.RedeemConsole(w.t.Context(), w.actors["member"], id, secret); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"PoolSecret": {may: ownAgent, with: func(w *authzFixture) []any {
		id := w.poolWithSecret()
		if _, err := w.ChangePoolSecret(w.t.Context(), chief, id, "secretsecret1"); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"GuestSecret": {may: ownAgent, with: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		task, err := w.ActGuest(w.t.Context(), chief, id, control.GuestOrder{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.exec(`UPDATE jobs SET state = 'running', epoch = 7, lease_until = now() + interval '1 hour' WHERE id = $1`, task.ID)
		return []any{fleet.JobID(task.ID)}
	}},
	"FirstBootFor": {may: ownAgent, with: func(w *authzFixture) []any {
		w.exec(enableFirstBoots)
		vm, err := w.CreateVM(w.t.Context(), chief, control.CreateVM{ProjectID: w.red, Name: w.name("red"), HostID: w.h1, Spec: smallSpec, FirstBoot: hostnameFirstBoot("a")})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{vm.ID, wire.FirstBootRequest{FirstBoot: vm.Spec.FirstBoot}}
	}},
	"ProveSession": {may: agents, with: func(w *authzFixture) []any { w.newSessions(); return nil }},
	"RenewHost": {may: agents, with: func(w *authzFixture) []any {
		key, err := auth.RequestKeyHash(someCSR())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, who := range []string{"agent", "alien"} {
			a := w.actors[who]
			a.KeyHash = string(key)
			w.actors[who] = a
		}
		return []any{someCSR()}
	}},

	// The portal itself.
	"ActorOf":   {may: portal, with: func(*authzFixture) []any { return []any{fleet.UserID("wes"), time.Now().Add(time.Hour)} }},
	"Authority": {may: portal, with: none},

	"AuthorityCertificate": {may: portal, with: none},

	"EnsureAdmin":   {may: portal, with: none},
	"HostsNotFresh": {may: portal, with: none},
	"VMsOf":         {may: portal, with: func(w *authzFixture) []any { return []any{[]fleet.HostID{w.h1}} }},
	"NoteRefusal": {may: portal, with: func(w *authzFixture) []any {
		return []any{w.actors["stranger"], "GET /vms", fleet.Errorf(fleet.Forbidden, "No.")}
	}},
	"RememberBrowser": {may: portal, with: func(w *authzFixture) []any { return []any{w.someUser(), ""} }},
	"BeginTasks":      {may: portal, with: none},
	"AssignLabelled":  {may: portal, with: none},
	"GatherPeers":     {may: portal, with: none},
	"QueueDrifted":    {may: portal, with: none},
	"SettlePlaces":    {may: portal, with: none},

	// Security groups of project red; see TestTenantPermissionsOnSecurityGroups for global ones.
	"FollowPortGroups":     {may: portal, with: none},
	"SettleSecurityGroups": {may: portal, with: none},
	"ListSecurityGroups":   {may: somewhere, with: readUseCase},
	"SharedSecurityGroups": {may: somewhere, with: none},
	"SecurityGroupsFor":    {may: redSeen, with: func(w *authzFixture) []any { return []any{w.red} }},
	"GetSecurityGroup":     {may: redSeen, with: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"NICFilters":           {may: redSeen, with: func(w *authzFixture) []any { return []any{w.vm()} }},
	"WouldPass": {may: redSeen, with: func(w *authzFixture) []any {
		return []any{fleet.PassQuestion{From: fleet.PassEnd{VMID: w.vmWithNIC()}, To: fleet.PassEnd{Address: "10.0.0.1"}, Protocol: fleet.ICMP}}
	}},
	"CreateSecurityGroup": {may: redUse, with: func(w *authzFixture) []any {
		return []any{control.CreateSecurityGroup{ProjectID: w.red, Name: w.name("group")}}
	}},
	"UpdateSecurityGroup": {may: redUse, with: func(w *authzFixture) []any {
		name := w.name("renamed")
		return []any{w.securityGroup(), control.UpdateSecurityGroup{Name: &name}}
	}},
	"DeleteSecurityGroup": {may: redUse, with: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"RetrySecurityGroup":  {may: redUse, with: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"RefreshCounters":     {may: portal, with: none},
	"CountChanged":        {may: portal, with: func(w *authzFixture) []any { return []any{[]fleet.VMID(nil), []fleet.HostID{w.h1}} }},
	"RescueJobs":          {may: portal, with: none},
	"Sweep":               {may: portal, with: none},
	"ExpireVMs":           {may: portal, with: none},
	"TakeScheduled":       {may: portal, with: none},
	"DropTemporary":       {may: portal, with: none},
	"SettleRules":         {may: portal, with: none},
	"EndUploads":          {may: portal, with: none},
	"EndExports":          {may: portal, with: none},
	"KeepAudit":           {may: portal, with: none},
	"ForgetAddress":       {may: portal, with: none},
	"KeepPulse":           {may: "system?", with: none}, // not called as the system, because it returns only when its context ends
	"Ready":               {may: portal, with: none},
	"SetAgentAddress":     {may: portal, with: none},
	"AgentAddress":        {may: portal, with: none},
}
