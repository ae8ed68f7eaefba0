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

func noArgs(*authzFixture) []any      { return nil }
func readUseCase(*authzFixture) []any { return []any{fleet.Query{}} }

// useCases has an entry for every exported method of control.Control, including embedded ones.
var useCases = mergeCases(peopleCases, infraCases)

// peopleCases has the entries for objects of projects and users, infraCases those for infrastructure.
var peopleCases = map[string]useCase{
	// VMs of project red.
	"FirstBoot":    {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vmWithFirstBoot()} }},
	"SetFirstBoot": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vmWithoutFirstBoot(), *hostnameFirstBoot("a")} }},

	// Customization specs of project red.
	"CreateCustomization": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.customization()} }},
	"UpdateCustomization": {permitted: redUse, args: func(w *authzFixture) []any { in := w.customization(); return []any{w.addCustomization(in).ID, in} }},
	"DeleteCustomization": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"GetCustomization":    {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.addCustomization(w.customization()).ID} }},
	"ListCustomizations":  {permitted: somewhere, args: noArgs},
	"ActVM":               {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vm(), fleet.ActShutdown} }},
	"CreateVM": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"CreateVMWithTask": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"DeleteVM": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vm(), false, ""} }},
	"GetVM":    {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"UpdateVM": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanVM": {permitted: except(redUse, "system"), args: func(w *authzFixture) []any {
		return []any{w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}}}
	}},
	"PlanNewVM": {permitted: except(redUse, "system"), args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"GetPlan": {permitted: mia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"PreviewVM": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{control.CreateVM{ProjectID: w.red, Name: w.name("red"), Spec: smallSpec}}
	}},
	"PlanOrder":   {permitted: mia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"ExecutePlan": {permitted: mia, args: func(w *authzFixture) []any { return []any{w.plan()} }},
	"DetachDisk":  {permitted: redUse, args: func(w *authzFixture) []any { id, disk := w.faultyVM(); return []any{id, disk} }},
	"ReplaceDisk": {permitted: redUse, args: func(w *authzFixture) []any {
		id, disk := w.faultyVM()
		return []any{id, disk, control.NewDisk{Volume: w.name("new") + ".qcow2", SizeBytes: 1 << 20}}
	}},
	"GrowDisk": {permitted: redUse, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.GrowDisk{SizeBytes: 2 << 30}}
	}},
	"MoveDisk": {permitted: infraChange, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		return []any{id, disk, control.MoveDisk{PoolID: w.local}}
	}},
	"TakeSnapshot": {permitted: redUse, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, control.NewSnapshot{Name: "before"}}
	}},
	"RevertSnapshot": {permitted: redUse, args: func(w *authzFixture) []any {
		id, snapshot := w.withSnapshots()
		return []any{id, snapshot, control.RevertSnapshot{}}
	}},
	"DeleteSnapshot":    {permitted: redUse, args: func(w *authzFixture) []any { id, snapshot := w.withSnapshots(); return []any{id, snapshot, true} }},
	"ConsolidateVM":     {permitted: redUse, args: func(w *authzFixture) []any { id, _ := w.withSnapshots(); return []any{id} }},
	"SnapshotSchedules": {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AddSnapshotSchedule": {permitted: redUse, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		return []any{id, hourly}
	}},
	"EditSnapshotSchedule":   {permitted: redUse, args: func(w *authzFixture) []any { id, schedule := w.vmWithSchedule(); return []any{id, schedule, hourly} }},
	"DeleteSnapshotSchedule": {permitted: redUse, args: func(w *authzFixture) []any { id, schedule := w.vmWithSchedule(); return []any{id, schedule} }},
	"SnapshotWork":           {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"CloneName":              {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"ExportVM": {permitted: redUse, args: func(w *authzFixture) []any {
		w.exec(`DELETE FROM exports`) // the number of exports per project is limited
		return []any{w.stoppedVMWithDisk(), control.NewExport{Format: "ova"}}
	}},
	"ListExports":  {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"GetExport":    {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.export()} }},
	"DeleteExport": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.export()} }},
	"ReadExport":   {permitted: except(redUse, "system"), args: func(w *authzFixture) []any { return []any{w.export()} }},
	"ImageOfDisk": {permitted: redUse, args: func(w *authzFixture) []any {
		id, disk := w.vmWithDisk()
		w.exec(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, disk, control.DiskImage{Name: w.name("image")}}
	}},
	"CreateVMs": {permitted: except(redUse, "system"), args: func(w *authzFixture) []any {
		return []any{control.CreateVMs{CreateVM: control.CreateVM{ProjectID: w.red, Name: w.name("many") + "-{n}", Spec: smallSpec}, BulkNames: fleet.BulkNames{Count: 2}}}
	}},

	// Templates of project red.
	"AddTemplate": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{control.NewTemplate{Name: w.name("template"), TemplateSource: w.vmWithoutDisks()}}
	}},
	"AddTemplateVersion": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.vmWithoutDisks()} }},
	"EditTemplate": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{w.template().TemplateID, control.EditTemplate{Description: new("tidy")}}
	}},
	"DeprecateTemplateVersion": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.template(), true} }},
	"DeleteTemplateVersion":    {permitted: redUse, args: func(w *authzFixture) []any { of := w.template(); return []any{of, string(of.TemplateID)} }},
	"DeleteTemplate":           {permitted: redUse, args: func(w *authzFixture) []any { id := w.template().TemplateID; return []any{id, string(id)} }},
	"GetTemplate":              {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.template().TemplateID} }},
	"ListTemplates":            {permitted: somewhere, args: readUseCase},
	"GrantTemplate":            {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.blue} }},
	"RevokeTemplate":           {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.template().TemplateID, w.red} }},
	"MigrateVM": {permitted: infraChange, args: func(w *authzFixture) []any {
		id, _ := w.vmWithDisk()
		w.exec(`UPDATE vms SET spec = spec || '{"power":"stopped"}', status = status || '{"power":"stopped"}' WHERE id = $1`, id)
		return []any{id, control.MigrateVM{HostID: w.h2}}
	}},
	"MigrationTargets":   {permitted: infraChange, args: func(w *authzFixture) []any { id, _ := w.vmWithDisk(); return []any{id} }},
	"OpenMigration":      {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"MoveTargets":        {permitted: infraChange, args: func(w *authzFixture) []any { id, disk := w.vmWithDisk(); return []any{id, disk} }},
	"OpenDiskMigrations": {permitted: infraChange, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"AcceptDrift": {permitted: redUse, args: func(w *authzFixture) []any {
		id, _ := w.faultyVM()
		return []any{id, map[string]string{"cpus": "2 vCPUs"}}
	}},
	"Reapply":         {permitted: redUse, args: func(w *authzFixture) []any { id, _ := w.faultyVM(); return []any{id} }},
	"SetVMProtection": {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.vm(), control.ProtectVM{Protected: true}} }},
	"VMGuest":         {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"ActGuest": {permitted: redUse, args: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		return []any{id, control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"}}
	}},
	"VMRetry":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMHistory":   {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"VMMeter":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"OpenConsole": {permitted: except(redUse, "system"), args: func(w *authzFixture) []any { return []any{w.vm()} }},
	// Use cases that run inside RunOnce check their own permissions.
	"RunOnce": {permitted: except(persons, "system") + " system?", args: func(w *authzFixture) []any {
		do := func(context.Context) ([]byte, error) { return []byte("answer"), nil }
		return []any{control.Key{Name: w.name("key"), Request: []byte("request"), Secret: auth.NewSecret(auth.TokenPrefix)}, do}
	}},
	"RedeemConsole": {permitted: mia, args: func(w *authzFixture) []any {
		id, secret := w.console()
		return []any{id, secret}
	}},
	"GetTask": {permitted: redSeen, args: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},
	"GuestRun": {permitted: redUse, args: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET spec = spec || '{"policy":{"guestExec":true}}', status = status || '{"guest":{"agent":"answers"},"policy":{"guestExec":true}}' WHERE id = $1`, id)
		task, err := w.ActGuest(w.t.Context(), chief, id, control.GuestRequest{Action: fleet.ActExec, Program: "ls"})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{task.ID}
	}},
	"CancelTask": {permitted: redUse, args: func(w *authzFixture) []any { return []any{fleet.TaskID(w.job("queued"))} }},

	// Lists, filtered to what the actor sees.
	"Complete":     {permitted: somewhere, args: func(w *authzFixture) []any { w.vm(); return []any{"vms", "red"} }},
	"ListProjects": {permitted: somewhere, args: readUseCase},
	"ListTasks":    {permitted: somewhere, args: func(w *authzFixture) []any { w.job("queued"); return readUseCase(w) }},
	"ListVMs":      {permitted: somewhere, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMRows":   {permitted: somewhere, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"ListVMLines":  {permitted: somewhere, args: func(w *authzFixture) []any { w.vm(); return readUseCase(w) }},
	"Overview":     {permitted: somewhere, args: func(w *authzFixture) []any { w.job("queued"); return nil }},
	"RunningTasks": {permitted: somewhere, args: noArgs},
	"Search":       {permitted: somewhere, args: func(w *authzFixture) []any { w.vm(); return []any{"red", 8} }},
	"Layout":       {permitted: somewhere, args: func(w *authzFixture) []any { return []any{fleet.Query{}, query.TreeQuery{View: "vms"}} }},
	"Tree":         {permitted: somewhere, args: func(w *authzFixture) []any { return []any{query.TreeQuery{View: "vms"}} }},
	"VMTotals":     {permitted: somewhere, args: noArgs},
	"EditVMs": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, fleet.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"PreviewEdit": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, fleet.BulkEdit{Fields: map[string]json.RawMessage{"cpus": []byte("3")}}}
	}},
	"DeleteVMs": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}, false} }},
	"SnapshotVMs": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.NewSnapshot{Name: "a"}}
	}},
	"MigrateVMs": {permitted: except(infraChange, "system"), args: func(w *authzFixture) []any {
		return []any{[]fleet.VMID{w.vm()}, control.MigrateVM{HostID: w.h2}}
	}},
	"VMsByID": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any { return []any{[]fleet.VMID{w.vm()}} }},
	// Permission is checked for each VM: see TestBulkActionChecksPermissionPerVM.
	"ActVMs": {permitted: except(someUse, "system"), args: func(w *authzFixture) []any {
		return []any{fleet.ActShutdown, []fleet.VMID{w.vm()}}
	}},

	// Users and projects.
	"CreateJoinToken": {permitted: managers, args: func(*authzFixture) []any { return []any{fleet.HostID("")} }},
	"CreateProject":   {permitted: managers, args: func(w *authzFixture) []any { return []any{identity.ProjectInput{Name: w.name("project")}} }},
	"CreateUser":      {permitted: managers, args: func(w *authzFixture) []any { return []any{identity.UserInput{Name: w.name("user")}} }},
	"DeleteProject":   {permitted: managers, args: func(w *authzFixture) []any { return []any{w.project(w.name("project"))} }},
	"DeleteUser":      {permitted: managers, args: func(w *authzFixture) []any { return []any{w.someUser()} }},
	"GetProject":      {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.red} }},
	"GetUser":         {permitted: mia + " " + managers, args: func(*authzFixture) []any { return []any{fleet.UserID("mia")} }},
	"ListJoinTokens":  {permitted: managers, args: readUseCase},
	"ListMembers":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.red} }},
	"ListUsers":       {permitted: managers, args: readUseCase},
	"RevokeJoinToken": {permitted: managers, args: func(w *authzFixture) []any { return []any{w.joinToken().ID} }},
	"SetMember":       {permitted: managers, args: func(w *authzFixture) []any { return []any{w.red, w.someUser(), fleet.RoleViewer} }},
	"SetPassword":     {permitted: managers, args: func(w *authzFixture) []any { return []any{w.someUser(), "violet lantern harbour"} }},
	"UpdateProject":   {permitted: managers, args: func(w *authzFixture) []any { return []any{w.blue, identity.ProjectInput{Name: "blue"}} }},
	"UpdateUser":      {permitted: managers, args: func(w *authzFixture) []any { return []any{w.someUser(), identity.UserInput{Name: w.name("user")}} }},

	// The actor's own account.
	"ChangePassword": {permitted: except(persons, "system"), args: func(*authzFixture) []any { return []any{goodPassword, "violet lantern harbour", false} }},
	"CreateToken":    {permitted: except(persons, "newcomer", "system"), args: func(*authzFixture) []any { return []any{"a token", time.Hour} }},
	"DeleteToken": {permitted: mia, args: func(w *authzFixture) []any {
		return []any{fleet.TokenID(w.insertForMia(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'mia', 'her own', convert_to($1, 'UTF8'))`))}
	}},
	"DeleteView": {permitted: mia, args: func(w *authzFixture) []any {
		return []any{fleet.ViewID(w.insertForMia(`INSERT INTO saved_views (id, user_id, list, name, query) VALUES ($1, 'mia', 'vms', $1, '')`))}
	}},
	"ListTokens": {permitted: persons, args: readUseCase},
	"ListViews":  {permitted: persons, args: func(*authzFixture) []any { return []any{"vms"} }},
	"SaveView":   {permitted: except(persons, "system"), args: func(*authzFixture) []any { return []any{"vms", "mine", "filter=phase:running"} }},
	"CPUModels":  {permitted: somewhere, args: noArgs},
	"WatchKeys": {permitted: persons, args: func(w *authzFixture) []any {
		return []any{[]string{"vm:" + string(w.vm()), "host:" + string(w.h1), "tasks"}}
	}},

	// Authentication.
	"ActorOfToken": {
		permitted: everybody,
		args: func(w *authzFixture) []any {
			secret := auth.NewSecret(auth.TokenPrefix)
			w.exec(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'wes', 'his', $2)`, fleet.NewID[fleet.TokenID](), auth.HashSecret(secret))
			return []any{secret}
		},
		badArgs: func(*authzFixture) []any { return []any{auth.NewSecret(auth.TokenPrefix)} },
	},
	"JoinHost": {
		permitted: everybody,
		args: func(w *authzFixture) []any {
			return []any{w.joinToken().Secret, wire.JoinRequest{Name: w.name("joined"), HostUUID: string(fleet.NewID[fleet.HostID]()), CSR: someCSR()}}
		},
		badArgs: func(w *authzFixture) []any {
			return []any{auth.NewSecret("qxj_"), wire.JoinRequest{Name: w.name("joined"), CSR: someCSR()}}
		},
	},
	"SignIn": {
		permitted: everybody,
		args:      func(w *authzFixture) []any { return []any{string(w.someUser()), goodPassword} },
		badArgs: func(w *authzFixture) []any {
			w.exec(`DELETE FROM login_throttle`)
			return []any{string(w.someUser()), "not the password"}
		},
	},

	// Agents, each for its own host. Calls that a portal never makes as a host are not tested.
	"Hello": {permitted: agents, args: func(w *authzFixture) []any {
		return []any{wire.Hello{Instance: w.name("instance"), Fingerprint: "f"}}
	}},
	"Claim": {permitted: agents, args: func(w *authzFixture) []any {
		w.newSessions()
		w.exec(`DELETE FROM jobs`)
		return []any{wire.ClaimRequest{Max: 1}, time.Duration(0)}
	}},
	"NewJobWaiter": {permitted: agents, args: func(*authzFixture) []any { return nil }},
	"Report": {permitted: agents, args: func(w *authzFixture) []any {
		w.newSessions()
		return []any{wire.Report{Seq: w.seq(), Digest: "d", State: &wire.State{Host: fleet.HostStatus{Connected: true}}}}
	}},
	"Progress": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.newSessions()
		return []any{w.job("running"), wire.Progress{Epoch: 7, Percent: 50}}
	}},
	"Finish": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.newSessions()
		return []any{w.job("running"), wire.Finish{Epoch: 7, Generation: 1, Seq: w.seq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}
	}},
	"FinishAll": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.newSessions()
		return []any{[]wire.Result{{Job: w.job("running"), Finish: wire.Finish{Epoch: 7, Generation: 1, Seq: w.seq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}}}}
	}},
	"Meet": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.newSessions()
		id, job, other := fleet.NewID[fleet.TransferID](), w.job("running"), w.someHost()
		w.exec(`INSERT INTO transfers (id, send_job, receive_job, from_host, to_host) VALUES ($1, $2, $2, $3, $4)`, id, job, w.h1, other)
		return []any{id, wire.Meet{Job: job, Epoch: 7}}
	}},
	"JoinPair": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.newSessions()
		id, secret := w.console()
		if _, err := w.RedeemConsole(w.t.Context(), w.actors["member"], id, secret); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"PoolSecret": {permitted: ownAgent, args: func(w *authzFixture) []any {
		id := w.poolWithSecret()
		if _, err := w.ChangePoolSecret(w.t.Context(), chief, id, "secretsecret1"); err != nil {
			w.t.Fatal(err)
		}
		return []any{id}
	}},
	"GuestSecret": {permitted: ownAgent, args: func(w *authzFixture) []any {
		id := w.vm()
		w.exec(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, id)
		task, err := w.ActGuest(w.t.Context(), chief, id, control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.exec(`UPDATE jobs SET state = 'running', epoch = 7, lease_until = now() + interval '1 hour' WHERE id = $1`, task.ID)
		return []any{fleet.JobID(task.ID)}
	}},
	"FirstBootFor": {permitted: ownAgent, args: func(w *authzFixture) []any {
		w.exec(enableFirstBoots)
		vm, err := w.CreateVM(w.t.Context(), chief, control.CreateVM{ProjectID: w.red, Name: w.name("red"), HostID: w.h1, Spec: smallSpec, FirstBoot: hostnameFirstBoot("a")})
		if err != nil {
			w.t.Fatal(err)
		}
		return []any{vm.ID, wire.FirstBootRequest{FirstBoot: vm.Spec.FirstBoot}}
	}},
	"ProveSession": {permitted: agents, args: func(w *authzFixture) []any { w.newSessions(); return nil }},
	"RenewHost": {permitted: agents, args: func(w *authzFixture) []any {
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
	"ActorOf":   {permitted: portal, args: func(*authzFixture) []any { return []any{fleet.UserID("wes"), time.Now().Add(time.Hour)} }},
	"Authority": {permitted: portal, args: noArgs},

	"AuthorityCertificate": {permitted: portal, args: noArgs},

	"EnsureAdmin":   {permitted: portal, args: noArgs},
	"HostsNotFresh": {permitted: portal, args: noArgs},
	"VMsOnHosts":    {permitted: portal, args: func(w *authzFixture) []any { return []any{[]fleet.HostID{w.h1}} }},
	"NoteRefusal": {permitted: portal, args: func(w *authzFixture) []any {
		return []any{w.actors["blueMember"], "GET /vms", fleet.Errorf(fleet.Forbidden, "No.")}
	}},
	"RememberBrowser": {permitted: portal, args: func(w *authzFixture) []any { return []any{w.someUser(), ""} }},
	"BeginTasks":      {permitted: portal, args: noArgs},
	"AssignLabelled":  {permitted: portal, args: noArgs},
	"GatherPeers":     {permitted: portal, args: noArgs},
	"QueueDrifted":    {permitted: portal, args: noArgs},
	"SettlePlaces":    {permitted: portal, args: noArgs},

	// Security groups of project red; see TestTenantPermissionsOnSecurityGroups for global ones.
	"FollowPortGroups":     {permitted: portal, args: noArgs},
	"SettleSecurityGroups": {permitted: portal, args: noArgs},
	"ListSecurityGroups":   {permitted: somewhere, args: readUseCase},
	"SharedSecurityGroups": {permitted: somewhere, args: noArgs},
	"SecurityGroupsFor":    {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.red} }},
	"GetSecurityGroup":     {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"NICFilterStates":      {permitted: redSeen, args: func(w *authzFixture) []any { return []any{w.vm()} }},
	"CheckConnection": {permitted: redSeen, args: func(w *authzFixture) []any {
		return []any{fleet.PassQuestion{From: fleet.PassEnd{VMID: w.vmWithNIC()}, To: fleet.PassEnd{Address: "10.0.0.1"}, Protocol: fleet.ICMP}}
	}},
	"CreateSecurityGroup": {permitted: redUse, args: func(w *authzFixture) []any {
		return []any{control.CreateSecurityGroup{ProjectID: w.red, Name: w.name("group")}}
	}},
	"UpdateSecurityGroup": {permitted: redUse, args: func(w *authzFixture) []any {
		name := w.name("renamed")
		return []any{w.securityGroup(), control.UpdateSecurityGroup{Name: &name}}
	}},
	"DeleteSecurityGroup":       {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"RetrySecurityGroup":        {permitted: redUse, args: func(w *authzFixture) []any { return []any{w.securityGroup()} }},
	"RefreshCounters":           {permitted: portal, args: noArgs},
	"CountChanged":              {permitted: portal, args: func(w *authzFixture) []any { return []any{[]fleet.VMID(nil), []fleet.HostID{w.h1}} }},
	"RescueJobs":                {permitted: portal, args: noArgs},
	"Sweep":                     {permitted: portal, args: noArgs},
	"ExpireVMs":                 {permitted: portal, args: noArgs},
	"RunSnapshotSchedules":      {permitted: portal, args: noArgs},
	"DeleteTemporarySnapshots":  {permitted: portal, args: noArgs},
	"SettleRules":               {permitted: portal, args: noArgs},
	"CancelStaleUploads":        {permitted: portal, args: noArgs},
	"DeleteStaleExports":        {permitted: portal, args: noArgs},
	"RotateAuditPartitions":     {permitted: portal, args: noArgs},
	"ForgetAddress":             {permitted: portal, args: noArgs},
	"CheckDatabasePeriodically": {permitted: "system?", args: noArgs}, // not called as the system, because it returns only when its context ends
	"Ready":                     {permitted: portal, args: noArgs},
	"SetAgentAddress":           {permitted: portal, args: noArgs},
	"AgentAddress":              {permitted: portal, args: noArgs},
}
