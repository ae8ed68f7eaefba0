package control_test

import (
	"strings"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/channel"
	"quantix/internal/control"
	"quantix/internal/control/alarms"
	"quantix/internal/control/channels"
	"quantix/internal/control/flavors"
	"quantix/internal/control/healthpolicies"
	"quantix/internal/control/hostpower"
	"quantix/internal/control/storage"
	"quantix/internal/deviceclass"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/hostcommand"
	"quantix/internal/request"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// network returns a bridge network of h1 that no project has a grant for.
func (w *authzFixture) network() fleet.NetworkID {
	id := fleet.NewID[fleet.NetworkID]()
	w.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, $2, 'bridge')`, id, w.uniqueName("br"))
	w.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, '{"active":true}')`, id, w.h1)
	return id
}

// job returns a job for a VM of project red on h1. state is "queued", or "running" with epoch 7.
func (w *authzFixture) job(state string) fleet.JobID {
	id := testkit.TaskWithJob{Host: w.h1, Project: w.red, Kind: fleet.VMShutdown, Subject: fleet.SubjectVM(w.vm()), Name: "red-vm", By: "mia", State: fleet.JobState(state)}.Add(w.t, w.pool)
	w.execSQL(`UPDATE jobs SET epoch = 7, lease_until = now() + interval '1 hour' WHERE id = $1`, id)
	return fleet.JobID(id)
}

// ownPool returns a pool that is assigned only to h1.
func (w *authzFixture) ownPool() fleet.PoolID {
	name := w.uniqueName("pool")
	return w.addPool(name, `{"kind":"dir","path":"/srv/`+name+`","shared":false}`, w.h1)
}

// volume returns an unused volume in a new pool.
func (w *authzFixture) volume() storage.VolumeID {
	name := w.uniqueName("data") + ".raw"
	w.addVolume(w.nfs, w.h1, `{"name":"`+name+`","path":"/mnt/nfs/`+name+`","format":"raw","capacityBytes":1048576}`)
	return storage.VolumeID{PoolID: w.nfs, Volume: name}
}

// volumeOfFormat returns a volume of the given format.
func (w *authzFixture) volumeOfFormat(format string) storage.VolumeID {
	name := w.uniqueName("foreign") + "." + format
	w.addVolume(w.nfs, w.h1, `{"name":"`+name+`","path":"/mnt/nfs/`+name+`","format":"`+format+`","capacityBytes":1048576,"appliance":{"disks":[{"format":"`+format+`","sizeBytes":1048576}]}}`)
	return storage.VolumeID{PoolID: w.nfs, Volume: name}
}

// stoppedVMWithDisk returns a VM of project red that is off, with an existing disk.
func (w *authzFixture) stoppedVMWithDisk() fleet.VMID {
	id, _ := w.vmWithDisk()
	w.execSQL(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, id)
	return id
}

// export returns a finished export of a VM of project red.
func (w *authzFixture) export() fleet.ExportID {
	id, of := fleet.NewID[fleet.ExportID](), w.volume()
	order := testkit.TaskWithJob{Host: w.h1, Project: w.red, Kind: fleet.VolumeExport, Subject: fleet.SubjectVolume(fleet.Volref{PoolID: of.PoolID, Volume: of.Volume}), Name: of.Volume, By: "mia", State: fleet.JobDone}.Add(w.t, w.pool)
	w.execSQL(`INSERT INTO exports (id, vm_id, project_id, task_id, pool_id, host_id, volume, format, created_by, expires_at)
		VALUES ($1, $2, $3, (SELECT task_id FROM jobs WHERE id = $4), $5, $6, $7, 'ova', 'mia', now() + interval '1 day')`, id, w.vm(), w.red, order, of.PoolID, w.h1, of.Volume)
	return id
}

// upload returns an upload of the operator.
func (w *authzFixture) upload() fleet.UploadID {
	w.execSQL(`DELETE FROM uploads`)
	u, err := w.CreateUpload(w.t.Context(), w.actors["operator"], w.nfs, control.NewUpload{Name: w.uniqueName("sent"), SizeBytes: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	return u.ID
}

// imageCopy publishes a new image with two copies to every project, and returns one of the copies.
func (w *authzFixture) imageCopy() control.ImageCopy {
	of, other := w.volume(), w.volume()
	id, version := w.publishImage(w.nfs, []fleet.HostID{w.h1}, of.Volume, "raw", 1<<20)
	w.execSQL(`INSERT INTO image_copies (version_id, pool_id, volume, added_by) VALUES ($1, $2, $3, 'chief')`, version, w.nfs, other.Volume)
	return control.ImageCopy{ImageID: id, PoolID: w.nfs, Volume: of.Volume}
}

func (w *authzFixture) image() fleet.ImageID { return w.imageCopy().ImageID }

func (w *authzFixture) imageName(of control.ImageCopy) string {
	return publishedName(of.Volume, of.PoolID)
}

// startImage returns a new entry of the image catalog.
func (w *authzFixture) startImage() fleet.StartImageID {
	id := fleet.NewID[fleet.StartImageID]()
	w.execSQL("INSERT INTO start_images (id, name, url, file) VALUES ($1, $1, 'https://example.org/a.qcow2', 'a.qcow2')", id)
	return id
}

// vmWithoutDisks returns a VM without disks. A template of such a VM needs no job.
func (w *authzFixture) vmWithoutDisks() control.TemplateSource {
	return control.TemplateSource{VMID: w.vm()}
}

// template returns a version of a template that project red owns.
func (w *authzFixture) template() control.TemplateVersion {
	of := control.TemplateVersion{TemplateID: fleet.NewID[fleet.TemplateID](), VersionID: fleet.NewID[fleet.TemplateVersionID]()}
	w.execSQL("INSERT INTO templates (id, project_id, name, created_by) VALUES ($1, $2, $1, 'chief')", of.TemplateID, w.red)
	w.execSQL(`INSERT INTO template_versions (id, template_id, number, spec, created_by) VALUES ($1, $2, 1, '{"cpus":1,"memoryMiB":128,"firmware":"bios","disks":[],"nics":[]}', 'chief')`, of.VersionID, of.TemplateID)
	w.execSQL("INSERT INTO template_grants (template_id, project_id, granted_by) VALUES ($1, $2, 'chief')", of.TemplateID, w.red)
	return of
}

func (w *authzFixture) someHost() fleet.HostID {
	return w.addHostWithMemory(w.uniqueName("spare"), 1024)
}

// hostWithCommands returns a new online host whose agent supports all commands.
func (w *authzFixture) hostWithCommands() fleet.HostID {
	id := w.someHost()
	w.execSQL(`UPDATE hosts SET status = status || $2 WHERE id = $1`, id, commandSettings)
	return id
}

// commandSettings is the part of a host's status of an agent that supports all commands.
const commandSettings = `{"settings":{"commands":["host.diagnose","host.agent.log","host.agent.restart"],"diagnostics":["raid"]}}`

// hostJob returns a running job of h1 that sends an archive.
func (w *authzFixture) hostJob() fleet.JobID {
	id := testkit.TaskWithJob{Host: w.h1, Kind: fleet.HostDiagnose, Subject: fleet.SubjectHost(w.h1), Name: "h1", By: "chief", State: fleet.JobRunning}.Add(w.t, w.pool)
	w.execSQL(`UPDATE jobs SET epoch = 7, lease_until = now() + interval '1 hour' WHERE id = $1`, id)
	return fleet.JobID(id)
}

// artifact returns an archive of h1.
func (w *authzFixture) artifact() hostcommand.ArtifactID {
	id := fleet.NewID[hostcommand.ArtifactID]()
	w.execSQL(`INSERT INTO host_artifacts (id, host_id, kind, job_id, task_id, created_by, size, summary, archive)
		VALUES ($1, $2, 'diagnostics', $1, $1, 'chief', 1, '{"items":[]}', '\x00')`, id, w.h1)
	return id
}

// hostInMaintenance returns a new host in maintenance whose agent may reboot it.
func (w *authzFixture) hostInMaintenance() fleet.HostID {
	id := w.someHost()
	w.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}', status = status || '{"settings":{"hostPower":true}}' WHERE id = $1`, id)
	return id
}

// upgradableHost returns a host that can take the release 2.0.0.
func (w *authzFixture) upgradableHost() fleet.HostID {
	id := w.someHost()
	w.execSQL(`UPDATE hosts SET status = status || jsonb_build_object('agentVersion', '1.0.0', 'platform', 'linux-amd64', 'settings', jsonb_build_object('upgradeKeys', jsonb_build_array($2::text))) WHERE id = $1`, id, w.releaseKey)
	return id
}

// orderedRelease returns the arguments of an agent's request for a release that h1 installs.
func (w *authzFixture) orderedRelease() []any {
	w.renewAgentSessions()
	job := w.job("running")
	w.execSQL(`UPDATE jobs SET kind = 'host.agent.upgrade', subject = 'host:' || host_id, args = '{"upgrade":{"version":"2.0.0"}}' WHERE id = $1`, job)
	return []any{"2.0.0", "linux-amd64"}
}

// hostWithBMC returns a new host with a BMC whose certificate is pinned.
func (w *authzFixture) hostWithBMC() fleet.HostID {
	id := w.someHost()
	in := hostpower.BMCInput{Spec: bmc.Spec{Address: "https://10.0.8.11", User: "root", Fingerprint: strings.Repeat("ab", 32)}, Password: "secretsecret1"}
	if _, err := w.SetBMC(w.t.Context(), chief, id, in); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// claimedBMC returns a BMC that cannot be read.
func (w *authzFixture) claimedBMC() hostpower.ClaimedBMC {
	w.hostWithBMC()
	w.execSQL(`UPDATE host_bmcs SET sealed = '', due_at = now(), leased_until = NULL`)
	claimed, err := w.ClaimBMCs(w.t.Context(), fleet.SystemActor)
	if err != nil || len(claimed) == 0 {
		w.t.Fatal(claimed, err)
	}
	return claimed[0]
}

// claimedOrder returns an order that cannot be carried out.
func (w *authzFixture) claimedOrder() hostpower.Order {
	id := w.hostWithBMC()
	w.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}', name = id WHERE id = $1`, id)
	w.execSQL(`UPDATE host_bmcs SET sealed = '' WHERE host_id = $1`, id)
	w.execSQL(`DELETE FROM host_power_orders`)
	if _, err := w.RequestBMCPower(w.t.Context(), chief, id, fleet.ActReset, string(id)); err != nil {
		w.t.Fatal(err)
	}
	claimed, err := w.ClaimPowerOrders(w.t.Context(), fleet.SystemActor)
	if err != nil || len(claimed) != 1 {
		w.t.Fatal(claimed, err)
	}
	return claimed[0]
}

func (w *authzFixture) someUser() fleet.UserID {
	return w.addUser(w.uniqueName("user"), fleet.RoleNone).UserID
}

// insertOwnedByMia runs the INSERT statement sql with a new id as argument, and returns the id. The row belongs to mia.
func (w *authzFixture) insertOwnedByMia(sql string) string {
	id := string(fleet.NewID[fleet.TokenID]())
	w.execSQL(sql, id)
	return id
}

// console returns the id and the secret of a console ticket of mia for a VM of project red.
func (w *authzFixture) console() (fleet.PairID, string) {
	ticket, err := w.OpenConsole(w.t.Context(), w.actors["member"], w.vm())
	if err != nil {
		w.t.Fatal(err)
	}
	w.execSQL(`DELETE FROM console_tickets WHERE expires_at < now() OR used_at IS NULL AND console_id <> $1`, ticket.ID)
	return ticket.ID, ticket.Secret
}

// consoleSession returns a VM of project red, and an open session of mia at its console. Another user has the keyboard.
func (w *authzFixture) consoleSession() (fleet.VMID, fleet.PairID) {
	vm, id := w.vm(), fleet.NewID[fleet.PairID]()
	w.execSQL(`INSERT INTO console_sessions (id, subject, uuid, vm_id, project_id, vm_name, kind, user_id, user_name, session, address, keyboard)
		VALUES ($1, 'vm:' || $2, $2, $2, $3, 'red-vm', 'vnc', $4, 'mia', 's', '', false), (gen_random_uuid()::text, 'vm:' || $2, $2, $2, $3, 'red-vm', 'vnc', NULL, 'gone', 's', '', true)`,
		id, vm, w.red, w.actors["member"].UserID)
	return vm, id
}

// nextReportSeq returns an unused report number of the agents' current sessions.
func (w *authzFixture) nextReportSeq() int64 {
	w.lastNumber++
	return w.firstReportSeq + int64(w.lastNumber)
}

// renewAgentSessions starts new sessions for the agents of both hosts.
func (w *authzFixture) renewAgentSessions() {
	for _, who := range []string{"agent", "alien"} {
		a := w.actors[who]
		answer, err := w.Hello(w.t.Context(), a, wire.Hello{Instance: w.uniqueName("instance"), Fingerprint: "f"})
		if err != nil {
			w.t.Fatal(err)
		}
		a.Session, w.firstReportSeq = answer.Session, answer.SeqBase
		w.actors[who] = a
	}
}

// cluster returns a new cluster without hosts.
func (w *authzFixture) cluster() fleet.ClusterID {
	id := fleet.NewID[fleet.ClusterID]()
	w.execSQL(`INSERT INTO clusters (id, name) VALUES ($1, $2)`, id, w.uniqueName("cluster"))
	return id
}

// alarmRuleInput returns the input for a new alarm rule.
func (w *authzFixture) alarmRuleInput() alarms.AlarmRuleInput {
	return alarms.AlarmRuleInput{Name: w.uniqueName("rule"), Spec: fleet.AlarmRuleSpec{Severity: fleet.AlarmInfo, Condition: "vm.io"}}
}

func (w *authzFixture) alarmRule() fleet.AlarmRuleID {
	rule, err := w.CreateAlarmRule(w.t.Context(), fleet.SystemActor, w.alarmRuleInput())
	if err != nil {
		w.t.Fatal(err)
	}
	return rule.ID
}

// healthPolicyInput returns the input for a new health policy.
func (w *authzFixture) healthPolicyInput() healthpolicies.PolicyInput {
	return healthpolicies.PolicyInput{Name: w.uniqueName("policy"), Spec: healthpolicy.Spec{Expression: `event.code == "none"`, Severity: fleet.AlarmInfo, Actions: healthpolicy.Actions{Taint: "gpu"}}}
}

func (w *authzFixture) healthPolicy() healthpolicy.ID {
	w.execSQL(`DELETE FROM health_policies`) // the number of policies is limited
	v, err := w.CreateHealthPolicy(w.t.Context(), fleet.SystemActor, w.healthPolicyInput())
	if err != nil {
		w.t.Fatal(err)
	}
	return v.ID
}

// healthMatch adds an open match of the first host.
func (w *authzFixture) healthMatch() (id int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.t.Context(), `INSERT INTO health_matches (policy_id, host_id, check_name, object, code, text, severity, actions, dry_run, momentary)
		VALUES ($1, $2, 'gpu', 'gpu/0', 'xid-79', 'XID 79.', 'critical', '{"cordon":true}', false, false) RETURNING id`, w.healthPolicy(), w.h1).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *authzFixture) channelInput() channels.ChannelInput {
	return channels.ChannelInput{Name: w.uniqueName("channel"), ProjectID: w.red, Spec: hookSpec(publicHook)}
}

// channel adds a channel of project red.
func (w *authzFixture) channel() channel.ID {
	v, err := w.CreateChannel(w.t.Context(), fleet.SystemActor, w.channelInput())
	if err != nil {
		w.t.Fatal(err)
	}
	w.execSQL(`DELETE FROM channels WHERE id <> $1`, v.ID) // the number of channels is limited
	return v.ID
}

func (w *authzFixture) deviceClassSpec() deviceclass.ClassDefinition {
	return deviceclass.ClassDefinition{Name: w.uniqueName("class"), Members: []deviceclass.ClassMember{}}
}

// deviceClass adds a device class that is published to project red.
func (w *authzFixture) deviceClass() fleet.DeviceClassID {
	v, err := w.CreateDeviceClass(w.t.Context(), fleet.SystemActor, w.deviceClassSpec())
	if err == nil {
		err = w.GrantDeviceClass(w.t.Context(), fleet.SystemActor, v.ID, w.red)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.execSQL(`DELETE FROM device_classes WHERE id <> $1`, v.ID) // the number of device classes is limited
	return v.ID
}

func (w *authzFixture) flavorSpec() flavor.Definition {
	return flavor.Definition{Name: w.uniqueName("flavor"), CPUs: 1, MemoryMiB: 256}
}

// flavor adds a flavor that is published to project red.
func (w *authzFixture) flavor() flavor.ID {
	v, err := w.CreateFlavor(w.t.Context(), fleet.SystemActor, w.flavorSpec())
	if err == nil {
		err = w.GrantFlavor(w.t.Context(), fleet.SystemActor, v.ID, w.red)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.execSQL(`DELETE FROM flavors WHERE id <> $1`, v.ID) // the number of flavors is limited
	return v.ID
}

// request adds an open request for a pool of project red, by its member.
func (w *authzFixture) request() request.ID {
	w.execSQL(`DELETE FROM requests`) // the number of open requests is limited
	r, err := w.CreateRequest(w.t.Context(), w.actors["member"], request.Input{ProjectID: w.red, Kind: request.Pool, Text: "fast", Reason: "r"})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

// alarm adds an open alarm of a VM of project red.
func (w *authzFixture) alarm() fleet.AlarmID {
	id := fleet.NewID[fleet.AlarmID]()
	w.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, project_id, cause, severity, text, plain, raised_at)
		VALUES ($1, $2, $3, 'red-vm', $4, 'cause', 'info', 'text', 'text', now())`, id, w.alarmRule(), "vm:"+string(w.vm()), w.red)
	return id
}

// nameOf returns the name of a VM.
func (w *authzFixture) nameOf(id fleet.VMID) (name string) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), `SELECT name FROM vms WHERE id = $1`, id).Scan(&name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// recycledVM returns a VM of project red in the recycle bin.
func (w *authzFixture) recycledVM() fleet.VMID {
	id := w.vm()
	w.execSQL(`UPDATE vms SET deleted_at = now(), recycled_at = now(), recycled_by = 'mia', purge_at = now() + interval '7 days', status = status || '{"power":"stopped"}' WHERE id = $1`, id)
	return id
}

// expiredVM returns a VM of project red that has expired.
func (w *authzFixture) expiredVM() fleet.VMID {
	id := w.vm()
	w.execSQL(`UPDATE vms SET expires_at = now() - interval '1 hour', expiry = 'over' WHERE id = $1`, id)
	return id
}

// renewal returns a renewal in a project without days.
func (w *authzFixture) renewal() flavors.Renewal {
	return flavors.Renewal{ExpiresAt: new(time.Now().AddDate(0, 1, 0))}
}
