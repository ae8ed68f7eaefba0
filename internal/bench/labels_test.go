package bench

import (
	"fmt"
	"testing"
	"time"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const (
	labelHosts    = 10_000
	labelNetworks = 40 // networks, each assigned by label to all these hosts
)

// BenchmarkLabels measures assignments by label to 10,000 hosts. First it measures the time until a network is assigned
// to all hosts, with a job for each host. Then, with 40 such networks, it measures a run of the label reconciler
// without changes, and a run after one new host has the label. The reference is the insertion of as many plain rows,
// with one statement for each of the reconciler's batches.
func BenchmarkLabels(b *testing.B) {
	r := newRig(b)
	r.exec(b, `INSERT INTO users (id, name, role, password_hash) VALUES ('ann', 'ann', 'admin', '')`)
	r.exec(b, `INSERT INTO hosts (id, name, spec) SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'h' || n, '{"labels": {"rack": "4"}}' FROM generate_series(1, $1::int) n`, labelHosts)
	r.exec(b, `ANALYZE hosts`)
	ann := fleet.Actor{UserID: "ann", Name: "ann", Role: fleet.RoleAdmin}
	pass := func() time.Duration {
		b.Helper()
		began := time.Now()
		if err := r.control.AssignToMatchingHosts(b.Context(), fleet.SystemActor); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	assigned := func() (n int) {
		b.Helper()
		if err := r.pool.QueryRow(b.Context(), `SELECT count(*) FROM assignments`).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	for range b.N {
		began := time.Now()
		if _, err := r.control.CreateNetwork(b.Context(), ann, network.CreateNetwork{
			Name: "by-label", Spec: fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, Selector: "rack=4",
		}); err != nil {
			b.Fatal(err)
		}
		answered := time.Since(began)
		for assigned() < labelHosts {
			pass()
		}
		all := time.Since(began)

		r.exec(b, `CREATE TABLE bare (LIKE assignments INCLUDING DEFAULTS, PRIMARY KEY (noun, object_id, host_id))`)
		began = time.Now()
		for n := 0; n < labelHosts; n += 200 {
			r.exec(b, `INSERT INTO bare SELECT * FROM assignments ORDER BY host_id OFFSET $1 LIMIT 200`, n)
		}
		bare := time.Since(began)

		r.exec(b, `INSERT INTO networks (id, name, kind, spec) SELECT 'bench-' || n, 'bench-' || n, kind, spec FROM networks, generate_series(2, $1::int) n`, labelNetworks)
		r.exec(b, `INSERT INTO selectors (noun, object_id, selector, pairs, keys) SELECT noun, 'bench-' || n, selector, pairs, keys FROM selectors, generate_series(2, $1::int) n`, labelNetworks)
		for n := 2; n <= labelNetworks; n++ {
			r.exec(b, `INSERT INTO assignments (noun, object_id, host_id, asked) SELECT 'net', 'bench-' || $1::int, id, 'assign' FROM hosts`, n)
		}
		r.exec(b, `ANALYZE`)
		var idle, one durations
		for range 10 {
			idle = append(idle, pass())
		}
		for n := range 5 {
			r.exec(b, `INSERT INTO hosts (id, name, spec) VALUES ($1, $1, '{"labels": {"rack": "4"}}')`, fmt.Sprintf("bench-%d", n))
			one = append(one, pass())
		}
		if want := labelNetworks * (labelHosts + 5); assigned() != want {
			b.Fatalf("%d assignments, not %d", assigned(), want)
		}
		goals.Labels.Record(b, all <= 30*time.Second && idle.percentile(0.5) <= time.Second,
			fmt.Sprintf("answered after %.0f ms, all after %.1f s; nothing to do %.0f ms, one new host %.0f ms", milliseconds(answered), all.Seconds(), milliseconds(idle.percentile(0.5)), milliseconds(one.percentile(0.5))),
			fmt.Sprintf("as many bare rows %.2f s", bare.Seconds()), all.Seconds()/bare.Seconds())
		r.exec(b, `TRUNCATE networks, tasks CASCADE`)
		r.exec(b, `DROP TABLE bare`)
		r.exec(b, `DELETE FROM hosts WHERE id LIKE 'bench-%'`)
	}
}
