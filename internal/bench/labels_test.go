package bench

import (
	"fmt"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const (
	labelHosts = 10_000
	labelNouns = 40 // networks, each of which asks for all of these hosts
)

// BenchmarkLabels measures what comes to 10,000 hosts by their labels: a network until it is assigned to all of them, with an order for each;
// then, with 40 such networks, a pass that finds nothing to do, and one after a single host has got its label.
// Beside it: as many bare rows, one statement for each pass's part.
func BenchmarkLabels(b *testing.B) {
	r := newRig(b)
	r.exec(b, `INSERT INTO users (id, name, role, password_hash) VALUES ('ann', 'ann', 'admin', '')`)
	r.exec(b, `INSERT INTO hosts (id, name, spec) SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'h' || n, '{"labels": {"rack": "4"}}' FROM generate_series(1, $1::int) n`, labelHosts)
	r.exec(b, `ANALYZE hosts`)
	ann := fleet.Actor{UserID: "ann", Name: "ann", Role: fleet.RoleAdmin}
	pass := func() time.Duration {
		b.Helper()
		began := time.Now()
		if err := r.control.AssignLabelled(b.Context(), fleet.SystemActor); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	held := func() (n int) {
		b.Helper()
		if err := r.pool.QueryRow(b.Context(), `SELECT count(*) FROM assignments`).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	for range b.N {
		began := time.Now()
		if _, err := r.control.CreateNetwork(b.Context(), ann, control.CreateNetwork{
			Name: "by-label", Spec: fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, Selector: "rack=4",
		}); err != nil {
			b.Fatal(err)
		}
		answered := time.Since(began)
		for held() < labelHosts {
			pass()
		}
		all := time.Since(began)

		r.exec(b, `CREATE TABLE bare (LIKE assignments INCLUDING DEFAULTS, PRIMARY KEY (noun, object_id, host_id))`)
		began = time.Now()
		for n := 0; n < labelHosts; n += 200 {
			r.exec(b, `INSERT INTO bare SELECT * FROM assignments ORDER BY host_id OFFSET $1 LIMIT 200`, n)
		}
		bare := time.Since(began)

		r.exec(b, `INSERT INTO networks (id, name, kind, spec) SELECT 'bench-' || n, 'bench-' || n, kind, spec FROM networks, generate_series(2, $1::int) n`, labelNouns)
		r.exec(b, `INSERT INTO selectors (noun, object_id, selector, pairs, keys) SELECT noun, 'bench-' || n, selector, pairs, keys FROM selectors, generate_series(2, $1::int) n`, labelNouns)
		for n := 2; n <= labelNouns; n++ {
			r.exec(b, `INSERT INTO assignments (noun, object_id, host_id, asked) SELECT 'net', 'bench-' || $1::int, id, 'assign' FROM hosts`, n)
		}
		r.exec(b, `ANALYZE`)
		var idle, one spread
		for range 10 {
			idle = append(idle, pass())
		}
		for n := range 5 {
			r.exec(b, `INSERT INTO hosts (id, name, spec) VALUES ($1, $1, '{"labels": {"rack": "4"}}')`, fmt.Sprintf("bench-%d", n))
			one = append(one, pass())
		}
		if want := labelNouns * (labelHosts + 5); held() != want {
			b.Fatalf("%d assignments, not %d", held(), want)
		}
		goals.Labels.Tell(b, all <= 30*time.Second && idle.at(0.5) <= time.Second,
			fmt.Sprintf("answered after %.0f ms, all after %.1f s; nothing to do %.0f ms, one new host %.0f ms", ms(answered), all.Seconds(), ms(idle.at(0.5)), ms(one.at(0.5))),
			fmt.Sprintf("as many bare rows %.2f s", bare.Seconds()), all.Seconds()/bare.Seconds())
		r.exec(b, `TRUNCATE networks, tasks CASCADE`)
		r.exec(b, `DROP TABLE bare`)
		r.exec(b, `DELETE FROM hosts WHERE id LIKE 'bench-%'`)
	}
}
