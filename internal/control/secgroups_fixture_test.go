package control_test

import (
	"sync/atomic"

	"quantix/internal/control"
	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

func allowRule(way secgroup.Direction, protocol secgroup.Protocol, port int) secgroup.Rule {
	return secgroup.Rule{Direction: way, Protocol: protocol, FromPort: port}
}

func (s *projectFixture) addSecurityGroup(a fleet.Actor, project fleet.ProjectID, name string, rules ...secgroup.Rule) secgroup.View {
	s.t.Helper()
	v, err := s.CreateSecurityGroup(s.t.Context(), a, network.CreateSecurityGroup{ProjectID: project, Name: name, Spec: secgroup.Spec{Rules: rules}})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// vmWithNIC returns a running VM of project red on h1 with one NIC, created by an administrator.
func (s *projectFixture) vmWithNIC(name string) fleet.VMView {
	s.t.Helper()
	spec := smallSpec
	spec.NICs = []fleet.NIC{{Network: "default"}}
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	s.reportPower(v.ID, fleet.Running)
	return s.getVM(v.ID)
}

// setSecurityGroups sets the security groups of the VM's only NIC.
func (s *projectFixture) setSecurityGroups(a fleet.Actor, vm fleet.VMID, groups ...fleet.SecurityGroupID) (fleet.VMView, error) {
	s.t.Helper()
	spec := s.getVM(vm).Spec
	spec.NICs[0].SecurityGroups = groups
	v, _, err := s.UpdateVM(s.t.Context(), a, vm, control.UpdateVM{Spec: &spec})
	return v, err
}

func (s *projectFixture) runSecurityGroupPass() {
	s.t.Helper()
	if err := s.AssignAndReleaseSecurityGroups(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// reportAddress writes the host's report that the VM's NIC has the address and a network filter.
func (s *projectFixture) reportAddress(vm fleet.VMID, address string) {
	s.t.Helper()
	mac := s.getVM(vm).Spec.NICs[0].MAC
	s.execSQL(`UPDATE vms SET status = COALESCE(status, '{"power":"running","cpus":1,"memoryMiB":128}') || jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('mac', $2::text, 'source', 'network default', 'filter', 'quantix-nic', 'addresses', jsonb_build_array($3::text)))) WHERE id = $1`, vm, mac, address)
}

// groupStatus returns the hosts with an assignment of the group, each followed by the requested state: "assign" or
// "release".
func (s *projectFixture) groupStatus(id fleet.SecurityGroupID) string {
	s.t.Helper()
	var out string
	err := s.pool.QueryRow(s.t.Context(), `SELECT COALESCE(string_agg(h.name || ' ' || a.asked, ', ' ORDER BY h.name), '') FROM assignments a JOIN hosts h ON h.id = a.host_id WHERE a.security_group_id = $1`, id).Scan(&out)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// finishSeq counts the job results, so that each has a new sequence number.
var finishSeq atomic.Int64

// claimAndFinishJobs claims the host's jobs and finishes them all with the error text, or successfully if it is empty.
func (s *projectFixture) claimAndFinishJobs(a fleet.Actor, errText string) []wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), a, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, a.HostID)
	for _, w := range claim.Jobs {
		f := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: base + finishSeq.Add(1), Outcome: wire.Done}
		if w.SecurityGroup != nil {
			f.SecurityGroup = &secgroup.Status{Active: errText == "", Error: errText}
		}
		if errText != "" {
			f.Outcome, f.Error = wire.Failed, errText
		}
		if _, _, err := s.Finish(s.t.Context(), a, w.ID, f); err != nil {
			s.t.Fatal(err)
		}
	}
	return claim.Jobs
}

func queryWithArgs[T any](s *projectFixture, sql string, args ...any) (v T) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatal(err)
	}
	return v
}
