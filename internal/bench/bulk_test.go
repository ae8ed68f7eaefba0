package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const bulkSamples = 5

// BenchmarkBulk measures an action on 500 VMs: the request, the time until every host has its jobs, and the end of one
// child task compared with the end of a single task. Limit: the request ≤ 300 ms.
func BenchmarkBulk(b *testing.B) {
	r := newRig(b)
	r.addHosts(b, 20)
	seedVMs(b, r, control.MaxBulkVMs)
	keepOnline(b, r)
	if _, err := r.pool.Exec(b.Context(), `INSERT INTO users (id, name, role, password_hash) VALUES ('ann', 'ann', 'operator', '')`); err != nil {
		b.Fatal(err)
	}
	ann := fleet.Actor{UserID: "ann", Name: "ann", Role: fleet.RoleOperator}
	var ids []fleet.VMID
	if err := r.pool.QueryRow(b.Context(), `SELECT array_agg(id ORDER BY name) FROM vms`).Scan(&ids); err != nil {
		b.Fatal(err)
	}
	exec := func(sql string) time.Duration {
		b.Helper()
		began := time.Now()
		if _, err := r.pool.Exec(context.WithoutCancel(b.Context()), sql); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	b.ResetTimer()
	for range b.N {
		var request, dispatch, settled durations
		for range bulkSamples {
			began := time.Now()
			task, err := r.control.RequestPowerActions(b.Context(), ann, fleet.ActReboot, ids)
			if err != nil || task.Steps.Queued != len(ids) {
				var why string
				_ = r.pool.QueryRow(b.Context(), `SELECT error FROM tasks WHERE error <> '' LIMIT 1`).Scan(&why)
				b.Fatal(task.Steps, err, why)
			}
			request = append(request, time.Since(began))
			began = time.Now()
			if err := r.control.BeginTasks(b.Context(), fleet.SystemActor); err != nil {
				b.Fatal(err)
			}
			dispatch = append(dispatch, time.Since(began))
			for range 40 {
				settled = append(settled, exec(`UPDATE jobs SET state = 'done', attempt = 1, ended_at = now() WHERE id = (SELECT id FROM jobs WHERE state = 'queued' LIMIT 1)`))
			}
			exec(`UPDATE jobs SET state = 'done', attempt = 1, ended_at = now() WHERE state = 'queued'`)
		}
		request.report(b, "request")
		b.ReportMetric(300, "limit-request-ms")
		dispatch.report(b, "behind")
		exec(`CREATE TABLE bare AS TABLE tasks WITH NO DATA`)
		bare := exec(`INSERT INTO bare SELECT * FROM tasks LIMIT 500`)
		exec(`DROP TABLE bare`)
		goals.Bulk.Record(b, request.percentile(0.99) <= 300*time.Millisecond, fmt.Sprintf("%s ms; %.1f s", request, dispatch.percentile(0.5).Seconds()),
			fmt.Sprintf("as many bare rows %.1f ms", milliseconds(bare)), request.percentile(0.5).Seconds()/bare.Seconds())
		settled.report(b, "end-of-a-part")
		var alone durations
		exec(`UPDATE tasks SET parent_id = NULL`)
		exec(`UPDATE jobs SET state = 'queued', ended_at = NULL WHERE id IN (SELECT max(id) FROM jobs GROUP BY subject)`)
		for range 200 {
			alone = append(alone, exec(`UPDATE jobs SET state = 'done', attempt = 1, ended_at = now() WHERE id = (SELECT id FROM jobs WHERE state = 'queued' LIMIT 1)`))
		}
		alone.report(b, "end-of-a-lone-order")
	}
}
