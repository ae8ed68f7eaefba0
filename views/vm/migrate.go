package vm

import (
	"strconv"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// MigratePage is the dialog that migrates a VM to another host.
type MigratePage struct {
	VM      fleet.VMView
	Why     string // why the VM cannot migrate now
	Targets []fleet.MigrationTarget
	To      kit.SelectChoices // possible targets
	In      MigrateForm
	Errors  kit.Errors
}

// MigrateForm holds the values that a person chose in the dialog of a VM's migration.
type MigrateForm struct {
	To, Rate   string
	Overcommit bool

	Channels, Downtime, Timeout, OnTimeout string
	AutoConverge, PostCopy                 bool
}

// MigrateToBest is the value of the choice of the best host.
const MigrateToBest = "best"

// migrationExpiryOptions are the choices of what happens after the time limit.
var migrationExpiryOptions = []kit.Option{
	{Value: string(fleet.ExpiryContinue), Text: "Keep trying"},
	{Value: string(fleet.ExpiryPause), Text: "Pause the guest until it has migrated"},
	{Value: string(fleet.ExpiryCancel), Text: "Cancel the migration"},
}

// hasOptions reports whether the person has set an option of the fold.
func (f MigrateForm) hasOptions() bool {
	return f.AutoConverge || f.PostCopy || f.Channels != "" || f.Downtime != "" || f.Timeout != ""
}

func (p MigratePage) dialog() kit.Dialog {
	return kit.Dialog{
		Help:  kit.HelpMigrate,
		Title: "Migrate " + p.VM.Name, Button: "Migrate", Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "migrate"), Why: p.Why,
	}
}

func migrationTargetValue(t fleet.MigrationTarget) string {
	return string(t.HostID) + "/" + string(t.PoolID)
}

func migrationTargetName(t fleet.MigrationTarget) string {
	if t.PoolID == "" {
		return t.HostName
	}
	return t.HostName + ", pool " + t.PoolName
}

// migrationTargetText describes a target: "host-2: live, 1.3 GiB, about 11 s".
func migrationTargetText(t fleet.MigrationTarget) string {
	out := migrationTargetName(t) + ": " + MigrationText(t)
	if t.PoolID != "" {
		out += ", " + kit.Bytes(t.FreeBytes) + " free"
	}
	return out
}

// MigrationText describes the migration to a target: "Live, copies disks, 1.3 GiB, about 11 s".
func MigrationText(t fleet.MigrationTarget) string {
	out := t.Method.DisplayName()
	switch {
	case t.Method == fleet.MethodCold && t.CopyBytes == 0:
		out += ", disks stay in shared pools"
	case t.CopyBytes > 0:
		out += ", " + kit.Bytes(t.CopyBytes)
	}
	if t.EstimateSeconds > 0 {
		out += ", about " + kit.ShortDuration(time.Duration(t.EstimateSeconds)*time.Second)
	}
	return out
}

// MigrationTargetOptions are the targets that a person can choose. They include targets that lack only capacity, because people
// with the permission may overcommit these.
func MigrationTargetOptions(targets []fleet.MigrationTarget) (out []kit.Option) {
	suitable := 0
	for _, t := range targets {
		if t.Allowed || t.Room {
			out = append(out, kit.Option{Value: migrationTargetValue(t), Text: migrationTargetText(t)})
		}
		if t.Allowed {
			suitable++
		}
	}
	if suitable > 1 {
		out = append([]kit.Option{{Value: MigrateToBest, Text: "Best host"}}, out...)
	}
	return out
}

// DefaultMigrationTarget returns the value of the choice that the dialog begins with: the best host, or the only
// suitable target; empty: none is suitable.
func DefaultMigrationTarget(targets []fleet.MigrationTarget) (value string) {
	for _, t := range targets {
		switch {
		case !t.Allowed:
		case value != "":
			return MigrateToBest
		default:
			value = migrationTargetValue(t)
		}
	}
	return value
}

// NameBestHost adds the best host of the plan to the option that chooses it.
func (p MigratePage) NameBestHost(plans []fleet.MigrationPlan) {
	for i, o := range p.To.Options {
		if o.Value == MigrateToBest && len(plans) == 1 && plans[0].Best != nil {
			p.To.Options[i].Text = "Best host (" + migrationTargetName(*plans[0].Best) + "): " + MigrationText(*plans[0].Best)
		}
	}
}

// maxRefusedTargets is how many refused targets the dialog shows with their reasons.
const maxRefusedTargets = 10

// refusedTargets returns the first refused targets, and the number of the other refused targets.
func (p MigratePage) refusedTargets() (first []fleet.MigrationTarget, more int) {
	for _, t := range p.Targets {
		switch {
		case t.Reason == "":
		case len(first) < maxRefusedTargets:
			first = append(first, t)
		default:
			more++
		}
	}
	return first, more
}

func (p MigratePage) needsOvercommit() bool {
	if p.In.Overcommit || p.Errors.At("overcommit") != "" {
		return true
	}
	room := false
	for _, t := range p.Targets {
		if t.Allowed {
			return false
		}
		room = room || t.Room
	}
	return room
}

// migrateAction is the action that migrates the VM, shown next to the name of its host.
func (p Page) migrateAction() kit.ActionButton {
	_, why := p.VM.AllowsMigration(p.DiskMigrations, p.RunningMigration)
	return kit.ActionButton{Icon: "server", Word: "Migrate to another host…", Href: views.VMPath(p.VM.ID, "migrate"), Dialog: true}.DisableFor(p.MigrateWhy).
		RequirePermission(p.Actor, policy.InfraChange).DisableFor(why)
}

func migrationText(l fleet.MigratingVM) string {
	if l.State == fleet.JobQueued {
		return "waiting for migration to " + l.ToName
	}
	return "migrating to " + l.ToName + ", " + strconv.Itoa(l.Progress) + " %"
}
