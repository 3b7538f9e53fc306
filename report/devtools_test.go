package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// A browser is a headless Chromium that is driven over its DevTools protocol:
// JSON messages that end with a zero byte, on the file descriptors 3 and 4.
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	session string

	mu      sync.Mutex
	last    int
	answers map[int]chan message
	events  []message
	arrived chan struct{} // one for each event
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// patience bounds each answer of the browser.
const patience = time.Minute

// startBrowser starts Chromium with an empty page. The test is skipped where there
// is none, unless SEALER_REQUIRE_BROWSER is set.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		if os.Getenv("SEALER_REQUIRE_BROWSER") != "" {
			t.Fatal("there is no Chromium")
		}
		t.Skip("the page is not tried in a browser: there is no Chromium; apt-get install chromium")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "sealer-browser-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+home, "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(home)
		t.Skipf("the page is not tried in a browser: %v", err)
	}
	_ = errors.Join(theirIn.Close(), theirOut.Close())
	b := &browser{t: t, in: in, answers: map[int]chan message{}, arrived: make(chan struct{}, 1<<16)}
	go b.read(out)
	t.Cleanup(func() {
		b.session = ""
		_ = b.send("Browser.close", nil)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		_ = in.Close()
		_ = out.Close()
		_ = os.RemoveAll(home) // a process of the browser that still ends may write there
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID != 0 {
			b.answers[m.ID] <- m
			delete(b.answers, m.ID)
		} else {
			b.events = append(b.events, m)
			b.arrived <- struct{}{}
		}
		b.mu.Unlock()
	}
}

func (b *browser) send(method string, params any) chan message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	answer := make(chan message, 1)
	b.answers[b.last] = answer
	m := map[string]any{"id": b.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	raw, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(raw, 0))
	}
	if err != nil {
		b.t.Errorf("%s: %v", method, err)
	}
	return answer
}

// call sends a command and decodes its result into result, unless that is nil.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	select {
	case m := <-b.send(method, params):
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: no answer in %v", method, patience)
	}
}

// open shows a page and waits until it has been loaded. It forgets earlier events.
func (b *browser) open(url string) {
	b.t.Helper()
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for end := time.After(patience); len(b.seen("Page.loadEventFired")) == 0; {
		select {
		case <-b.arrived:
		case <-end:
			b.t.Fatalf("%s was not loaded in %v", url, patience)
		}
	}
}

// seen returns the parameters of the events of a method since open.
func (b *browser) seen(method string) (out []json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.events {
		if m.Method == method {
			out = append(out, m.Params)
		}
	}
	return out
}

// eval evaluates an expression, or waits for its promise, and decodes its value
// into value, unless that is nil.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.Exception != nil {
		b.t.Fatalf("%.200s: %s %s", expression, got.Exception.Text, got.Exception.Exception.Description)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, value); err != nil {
		b.t.Fatalf("%.200s: %v in %s", expression, err, got.Result.Value)
	}
}

// press presses and releases a key.
func (b *browser) press(key string, code int, text string) {
	for _, kind := range []string{"keyDown", "keyUp"} {
		p := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			p["text"] = text
		}
		b.call("Input.dispatchKeyEvent", p, nil)
	}
}

// look sets the width of the window and the colours that the user prefers.
func (b *browser) look(width int, scheme string) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot writes a part of the page, from y down, to a PNG file.
func (b *browser) screenshot(file string, y, width, height int) {
	b.t.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true, "clip": map[string]int{"x": 0, "y": y, "width": width, "height": height, "scale": 1},
	}, &shot)
	if err := os.WriteFile(file, shot.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Log(fmt.Sprint("wrote ", file))
}
