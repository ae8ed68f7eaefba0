package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/wire"
)

// createdObjects lists what a run has created in the portal.
type createdObjects struct {
	project fleet.ProjectID
	hosts   []fleet.HostID
	pools   []fleet.PoolID
	users   []fleet.UserID
	vms     bool
}

// startOrDeleteTimeout returns the time limit for all VMs to be started, or to be deleted.
func (r *loadRun) startOrDeleteTimeout() time.Duration {
	return 2*time.Minute + time.Duration(r.o.VMs)*50*time.Millisecond
}

// createFleet creates the fleet, or uses the hosts that have joined before the run.
func (r *loadRun) createFleet(ctx, life context.Context) error {
	if len(r.o.Joined) > 0 {
		return r.serveJoinedHosts(ctx, life)
	}
	began := time.Now()
	if err := r.joinHosts(ctx, life); err != nil {
		return fmt.Errorf("join hosts: %w", err)
	}
	r.progress("%d hosts have joined and reported in %s", r.o.Hosts, elapsedSince(began))
	if err := r.createPools(ctx); err != nil {
		return fmt.Errorf("create pools: %w", err)
	}
	if r.o.VMs == 0 {
		return nil
	}
	began = time.Now()
	if err := r.createVMs(ctx); err != nil {
		return fmt.Errorf("create VMs: %w", err)
	}
	err := poll(ctx, "the start of the VMs", r.startOrDeleteTimeout(), func() (bool, error) { return r.runningVMs() >= r.o.VMs, nil })
	if err != nil {
		return fmt.Errorf("%w: %d of %d VMs run; %s", err, r.runningVMs(), r.o.VMs, r.anyFailureText())
	}
	r.progress("%d VMs are created and run after %s", r.o.VMs, elapsedSince(began))
	return nil
}

// joinHosts joins the hosts with join tokens. All hosts share one generated key, because the portal does not require
// different keys.
func (r *loadRun) joinHosts(ctx, life context.Context) error {
	key, request, err := newKeyAndCSR()
	if err != nil {
		return err
	}
	var trusted sync.Map // CA certificate in PEM -> *x509.CertPool, shared by all hosts
	return forEach(ctx, r.o.Hosts, joinConcurrency, func(ctx context.Context, i int) error {
		token, err := r.api.CreateJoinToken(ctx, "")
		if err != nil {
			return err
		}
		address := r.agentURL(token)
		answer, err := wire.Join(ctx, address, token.Secret, wire.JoinRequest{
			Name: fmt.Sprintf("%s-h%05d", r.name, i+1), HostUUID: fleet.NewID[string](), CSR: request,
		})
		if err != nil {
			return fmt.Errorf("join a host at %s: %w", address, err)
		}
		r.mu.Lock()
		r.created.hosts = append(r.created.hosts, answer.HostID)
		r.mu.Unlock()
		h := Host{ID: answer.HostID, Name: answer.Name}
		block, _ := pem.Decode([]byte(answer.Cert))
		if block == nil {
			return errors.New("the portal's answer holds no certificate")
		}
		h.Certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
		pool, known := trusted.Load(answer.CA)
		if !known {
			own := x509.NewCertPool()
			own.AppendCertsFromPEM([]byte(answer.CA))
			pool, _ = trusted.LoadOrStore(answer.CA, own)
		}
		h.CA = pool.(*x509.CertPool)
		a, err := r.newAgent(h)
		if err != nil {
			return err
		}
		return a.serve(life)
	})
}

// agentURL returns the URL of the agent listener: from Options, or else from the command in the join token.
func (r *loadRun) agentURL(token fleet.JoinToken) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Agents == "" {
		words := strings.Fields(token.Command)
		if i := slices.Index(words, "--portal"); i >= 0 && i+1 < len(words) {
			r.o.Agents = words[i+1]
		}
	}
	return r.o.Agents
}

func newKeyAndCSR() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// initialHosts is the number of hosts that a new pool is assigned to in the request. It is then assigned to the other
// hosts one by one.
const initialHosts = 50

// createPools creates shared pools on all hosts, and waits until they are healthy everywhere.
func (r *loadRun) createPools(ctx context.Context) error {
	began := time.Now()
	first, others := r.created.hosts[:min(initialHosts, r.o.Hosts)], r.created.hosts[min(initialHosts, r.o.Hosts):]
	for i := range r.o.Pools {
		p, err := r.api.CreatePool(ctx, client.NewPool{
			Name: fmt.Sprintf("%s-p%d", r.name, i+1), HostIDs: first,
			Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: fmt.Sprintf("/srv/%s-p%d", r.name, i+1), Shared: true},
		})
		if err != nil {
			return err
		}
		r.created.pools = append(r.created.pools, p.ID)
		if r.o.Database != "" {
			continue
		}
		err = forEach(ctx, len(others), apiConcurrency, func(ctx context.Context, i int) error {
			_, err := r.api.AssignPool(ctx, p.ID, others[i])
			return err
		})
		if err != nil {
			return err
		}
	}
	if r.o.Database != "" {
		if err := r.seedPools(ctx, others); err != nil {
			return err
		}
	}
	defer func() { r.progress("%d pools are on all hosts after %s", r.o.Pools, elapsedSince(began)) }()
	return poll(ctx, "the start of the pools", r.startOrDeleteTimeout(), func() (bool, error) {
		for _, id := range r.created.pools {
			p, err := r.api.Pool(ctx, id)
			if err != nil || p.Health.Healthy < r.o.Hosts {
				return false, err
			}
		}
		return true, nil
	})
}

// createVMs creates the VMs through the API, or directly in the database if Options names one.
func (r *loadRun) createVMs(ctx context.Context) error {
	project, err := r.api.CreateProject(ctx, client.NewProject{Name: r.name, Description: "Made by quantix load, which takes it away again."})
	if err != nil {
		return err
	}
	r.created.project, r.created.vms = project.ID, true
	if r.o.Database != "" {
		return r.seedVMs(ctx)
	}
	return forEach(ctx, r.o.VMs, apiConcurrency, func(ctx context.Context, i int) error {
		in := client.NewVM{
			ProjectID: project.ID, Name: fmt.Sprintf("%s-%06d", r.name, i+1), HostID: r.created.hosts[i%len(r.created.hosts)], Labels: labelsOfVM(i), Start: true,
			Spec: fleet.VMSpec{CPUs: 1 + i%8, MemoryMiB: 512 * (1 + i%16), NICs: []fleet.NIC{{Network: "default"}}},
		}
		if len(r.created.pools) > 0 {
			in.Spec.Disks = []fleet.Disk{{PoolID: r.created.pools[i%len(r.created.pools)], SizeBytes: 10 << 30}}
		}
		if _, err := r.api.CreateVM(ctx, in, ""); err != nil {
			return err
		}
		if (i+1)%5000 == 0 {
			r.progress("%d VMs are created, %d run", i+1, r.runningVMs())
		}
		return nil
	})
}

func labelsOfVM(i int) map[string]string {
	return map[string]string{"env": []string{"prod", "stage", "test"}[i%3], "tier": fmt.Sprintf("t%d", i%7)}
}

// serveJoinedHosts serves hosts that have joined before the run.
func (r *loadRun) serveJoinedHosts(ctx, life context.Context) error {
	began := time.Now()
	for _, h := range r.o.Joined {
		if _, err := r.newAgent(h); err != nil {
			return err
		}
	}
	if err := r.readHostVMs(ctx); err != nil {
		return err
	}
	r.progress("the VMs of %d hosts are read from the portal after %s", len(r.agents), elapsedSince(began))
	err := forEach(ctx, len(r.agents), joinConcurrency, func(_ context.Context, i int) error { return r.agents[i].serve(life) })
	r.progress("%d hosts with %d VMs have reported in %s", len(r.agents), r.runningVMs(), elapsedSince(began))
	return err
}

// readHostVMs reads the hosts' VMs from the portal.
func (r *loadRun) readHostVMs(ctx context.Context) error {
	for q := (fleet.Query{Limit: 500}); ; {
		page, err := r.api.VMs(ctx, q)
		if err != nil {
			return fmt.Errorf("read the list of VMs: %w", err)
		}
		for _, vm := range page.Items {
			if a, ours := r.byHost[vm.HostID]; ours {
				a.host.addVM(vm.VM)
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// runningVMs counts the running VMs of all hosts.
func (r *loadRun) runningVMs() (n int) {
	r.mu.Lock()
	agents := r.agents
	r.mu.Unlock()
	for _, a := range agents {
		n += a.host.runningGuests()
	}
	return n
}

// cleanUp removes everything that the run created, through the API. It calls end when the hosts are no longer needed.
func (r *loadRun) cleanUp(ctx context.Context, end func()) error {
	r.mu.Lock()
	m := r.created
	r.mu.Unlock()
	if r.o.SkipCleanup {
		return nil
	}
	if r.o.Keep {
		r.progress("All stays: the hosts %s-…, whose certificates end with this program, their VMs, pools, project and users", r.name)
		return nil
	}
	began := time.Now()
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s was not deleted: %w", what, r.name, err))
		}
	}
	note("a user", forEach(ctx, len(m.users), 1, func(ctx context.Context, i int) error { return ignoreNotFound(r.api.DeleteUser(ctx, m.users[i])) }))
	if m.vms {
		note("a VM", r.deleteVMs(ctx, m))
	}
	for _, id := range m.pools {
		_, err := r.api.DeletePool(ctx, id)
		note("a pool", ignoreNotFound(err))
	}
	note("a pool", poll(ctx, "the end of the pools", r.startOrDeleteTimeout(), func() (bool, error) {
		for _, id := range m.pools {
			if _, err := r.api.Pool(ctx, id); client.StatusOf(err) != http.StatusNotFound {
				return false, err
			}
		}
		return true, nil
	}))
	end()
	note("a host", forEach(ctx, len(m.hosts), joinConcurrency, func(ctx context.Context, i int) error { return ignoreNotFound(r.api.DeleteHost(ctx, m.hosts[i])) }))
	if m.project != "" {
		note("the project", ignoreNotFound(r.api.DeleteProject(ctx, m.project)))
	}
	if len(m.hosts)+len(m.users) > 0 {
		r.progress("All that was made is taken away, in %s", elapsedSince(began))
	}
	return errors.Join(errs...)
}

// deleteVMs deletes the VMs, and waits until the portal no longer lists them.
func (r *loadRun) deleteVMs(ctx context.Context, m createdObjects) error {
	if r.o.Database != "" {
		return r.deleteSeeded(ctx)
	}
	q := fleet.Query{Project: m.project, Limit: 500}
	for {
		page, err := r.api.VMs(ctx, q)
		if err != nil {
			return err
		}
		err = forEach(ctx, len(page.Items), apiConcurrency, func(ctx context.Context, i int) error {
			_, err := r.api.DeleteVM(ctx, page.Items[i].ID, false, "")
			return ignoreNotFound(err)
		})
		if err != nil {
			return err
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return poll(ctx, "the end of the VMs", r.startOrDeleteTimeout(), func() (bool, error) {
		page, err := r.api.VMs(ctx, fleet.Query{Project: m.project, Limit: 1})
		return err == nil && len(page.Items) == 0, err
	})
}

// ignoreNotFound returns nil if err means that the object does not exist, else err.
func ignoreNotFound(err error) error {
	if client.StatusOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func elapsedSince(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
