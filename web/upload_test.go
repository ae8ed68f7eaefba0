package web_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// If a host reports the whole file as received before the client has sent any data, the client gets an error.
func TestUploadFailsWhenHostClaimsUnsentData(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := p.addHost("h1", 0)
	pool := p.addPool("images", host)
	ended := make(chan error, 1)
	go func() {
		for deadline := time.Now().Add(30 * time.Second); ; {
			done, err := p.pool.Exec(t.Context(), `UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE kind = 'volume.upload' AND EXISTS (SELECT 1 FROM jobs WHERE kind = 'upload.open')`)
			if err != nil || done.RowsAffected() > 0 || time.Now().After(deadline) {
				ended <- err
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/api/v1/pools/"+string(pool)+"/uploads/x.raw?host="+string(host), bytes.NewReader(make([]byte, 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.newAPIClient("ann", fleet.RoleAdmin, nil).token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if err := <-ended; err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %v", res.StatusCode, err)
	}
}
