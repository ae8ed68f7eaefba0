package conformance

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// migrateWith migrates a new guest with local disks and the options, and returns the job's notes.
func (p *twoHosts) migrateWith(rate int64, o fleet.MigrationOptions) (vm fleet.VM, notes string, sent, received error) {
	vm = p.newLocalGuest()
	r := p.newLiveRun(vm)
	p.putBetween(r, func(int, liveMessage) bool { return true })
	r.source.Params.RateBytes, r.source.Params.Options, r.target.Options = rate, o, o
	var all []string
	r.source.Progress = func(_ int, note string) { all = append(all, note) }
	sent, received = p.migrate(r)
	if n := int(r.memoryStreams.Load()); n > 0 && sent == nil && o.Channels > 1 && n != o.Channels+1 {
		p.first.t.Errorf("the memory was sent over %d connections, want %d channels and the main one", n, o.Channels)
	}
	return vm, strings.Join(all, "\n"), sent, received
}

func testLiveMigrationOptions(t *testing.T, p *twoHosts) {
	for name, o := range map[string]fleet.MigrationOptions{
		"auto-converge with a maximum pause": {AutoConverge: true, MaxDowntime: 500},
		"four channels":                      {Channels: 4},
		"a long time limit":                  {TimeoutSeconds: 600, OnTimeout: fleet.ExpiryCancel},
	} {
		vm, _, sent, received := p.migrateWith(0, o)
		if sent != nil || received != nil {
			t.Errorf("with %s, the migration failed: %v; %v", name, sent, received)
			continue
		}
		p.first.wantAbsent(vm.ID)
		p.second.wantPower(vm.ID, fleet.Running)
	}
}

// testPostCopy accepts a refusal, because some kernels do not let QEMU's user handle page faults.
func testPostCopy(t *testing.T, p *twoHosts) {
	vm, _, sent, received := p.migrateWith(4<<20, fleet.MigrationOptions{PostCopy: true})
	if sent == nil && received == nil {
		p.first.wantAbsent(vm.ID)
		p.second.wantPower(vm.ID, fleet.Running)
		return
	}
	t.Logf("post-copy was refused: %v; %v", sent, received)
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
}

// The target checks the definition for the next start before the transfer, because a post-copy migration would lose the
// guest at the end.
func testLiveMigrationOfRefusedDefinition(t *testing.T, p *twoHosts) {
	if p.AddForeignMedium == nil {
		t.Skip("this host has no definitions")
	}
	for _, o := range []fleet.MigrationOptions{{}, {PostCopy: true}} {
		vm := p.newRunningGuest()
		p.AddForeignMedium(t, vm.ID, 0)
		r := p.newLiveRun(vm)
		r.source.Params.Options, r.target.Options = o, o
		begun := false
		r.source.Progress = func(percent int, _ string) { begun = begun || percent > 0 }
		sent, received := p.migrate(r)
		if sent == nil || received == nil || !strings.Contains(sent.Error(), "cannot receive the VM") || !strings.Contains(sent.Error(), "none of the VM's media") || begun {
			t.Errorf("the migration ended with %v; %v, after the transfer began: %v", sent, received, begun)
		}
		p.first.wantPower(vm.ID, fleet.Running)
		p.second.wantAbsent(vm.ID)
	}
}

func testLiveMigrationTimeLimit(t *testing.T, p *twoHosts) {
	vm, _, sent, received := p.migrateWith(1<<20, fleet.MigrationOptions{TimeoutSeconds: 1, OnTimeout: fleet.ExpiryCancel})
	if received == nil || fleet.CodeOf(sent) != fleet.Conflict || !strings.Contains(sent.Error(), "longer than 1 seconds") {
		t.Errorf("the migration ended with %v; %v, want its time limit as the reason", sent, received)
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)

	vm, notes, sent, received := p.migrateWith(1<<20, fleet.MigrationOptions{TimeoutSeconds: 1, OnTimeout: fleet.ExpiryPause})
	if sent != nil || received != nil || !strings.Contains(notes, "paused") {
		t.Errorf("the migration ended with %v; %v after the notes %q, want a pause", sent, received, notes)
	}
	p.first.wantAbsent(vm.ID)
	p.second.wantPower(vm.ID, fleet.Running)
}

func testLiveMigrationOptionsRefused(t *testing.T, p *twoHosts) {
	for _, o := range []fleet.MigrationOptions{{PostCopy: true, Channels: 2}, {Channels: 100}} {
		vm, _, sent, received := p.migrateWith(0, o)
		if fleet.CodeOf(sent) != fleet.Invalid || received == nil {
			t.Errorf("a migration with %+v ended with %v; %v, want a refusal", o, sent, received)
		}
		p.first.wantPower(vm.ID, fleet.Running)
		p.second.wantAbsent(vm.ID)
	}
}
