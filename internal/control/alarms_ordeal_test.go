//go:build ordeal

package control_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestTenThousandAlarmsAtOnce(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
		SELECT '00000000-0000-7000-9000-' || lpad(n::text, 12, '0'), $1, $2, 'a' || n, '{"power": "running", "cpus": 1, "memoryMiB": 512, "firmware": "bios"}',
			'{"power": "paused", "cpus": 1, "memoryMiB": 512, "faults": [{"code": "io", "text": "no space"}]}', 1 FROM generate_series(1, 10000) n`, s.red, s.h1)
	began := time.Now()
	s.evaluateAlarmsNow()
	t.Log("10,000 alarms raised in", time.Since(began))
	began = time.Now()
	s.evaluateAlarmsNow()
	t.Log("10,000 open alarms evaluated in", time.Since(began))
	groups, _, err := s.AlarmGroups(t.Context(), chief)
	if err != nil || len(groups) != 1 || groups[0].Count != 10000 || len(groups[0].Alarms) != fleet.AttentionNames {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
}
