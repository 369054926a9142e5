vcl 4.1;

# What is served until a configuration says where content comes from.

backend default none;

sub vcl_recv {
    if (req.url != "/") {
        return (synth(404));
    }
    return (synth(200));
}

sub vcl_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Cache-Control = "no-store";
    if (resp.status != 200) {
        set resp.body = {"<!doctype html><title>Not found</title><p>There is nothing here but <a href="/">a welcome</a>."};
        return (deliver);
    }
    set resp.body = {"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Freshet is installed</title>
<style>
:root { color-scheme: light dark }
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem }
pre { padding: 1rem; border: 1px solid #8886; border-radius: .4rem; overflow: auto }
</style>
</head>
<body>
<h1>Freshet is installed</h1>
<p>It runs, and has no content yet. In <code>/etc/freshet/freshet.toml</code> replace the line
<code>vcl = …</code> with where yours comes from:</p>
<pre>[[origin]]
url = "http://127.0.0.1:8080"</pre>
<p>then check it and put it in force:</p>
<pre>freshet check /etc/freshet/freshet.toml
systemctl reload freshet</pre>
<p><code>man freshet</code> lists the commands, <code>man freshet.toml</code> the configuration.</p>
</body>
</html>
"};
    return (deliver);
}
