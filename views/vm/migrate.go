package vm

import (
	"strconv"

	"quantix/internal/fleet"
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

func migrationTargetText(t fleet.MigrationTarget) string {
	if t.PoolID == "" {
		return migrationTargetName(t) + ": disks stay in shared pools"
	}
	return migrationTargetName(t) + ", " + kit.Bytes(t.FreeBytes) + " free"
}

// MigrationTargetOptions are the targets that a person can choose. They include targets that lack only capacity, because people
// with the permission may overcommit these.
func MigrationTargetOptions(targets []fleet.MigrationTarget) (out []kit.Option) {
	for _, t := range targets {
		if t.Allowed || t.Room {
			out = append(out, kit.Option{Value: migrationTargetValue(t), Text: migrationTargetText(t)})
		}
	}
	return out
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
	return kit.ActionButton{Icon: "server", Word: "Migrate to another host…", Href: views.VMPath(p.VM.ID, "migrate"), Dialog: true}.DisableFor(p.MigrateWhy).DisableFor(why)
}

func migrationText(l fleet.MigratingVM) string {
	if l.State == fleet.JobQueued {
		return "waiting for migration to " + l.ToName
	}
	return "migrating to " + l.ToName + ", " + strconv.Itoa(l.Progress) + " %"
}
