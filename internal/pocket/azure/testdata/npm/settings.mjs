// Goes through a setting's life with Microsoft's client for App Configuration, and
// prints what it saw as JSON. Arguments: the address of the pocket Azure, the tenant.
import {createRequire} from 'node:module';
const require = createRequire(process.cwd() + '/');
const {AppConfigurationClient} = require('@azure/app-configuration');
const [url, tenant] = process.argv.slice(2);
const out = {};

const credential = {
	async getToken(scopes) {
		out.asked = [scopes].flat();
		const body = new URLSearchParams({grant_type: 'client_credentials', client_id: 'node', client_secret: 'secret', scope: out.asked.join(' ')});
		const reply = await (await fetch(`${url}/${tenant}/oauth2/v2.0/token`, {method: 'POST', body})).json();
		return {token: reply.access_token, expiresOnTimestamp: Date.now() + reply.expires_in * 1000};
	},
};
const client = new AppConfigurationClient(url, credential, {retryOptions: {maxRetries: 0}, audience: 'https://appconfig.azure.com'});
const refused = async call => {
	try {
		await call();
	} catch (e) {
		return e.statusCode;
	}
};

const id = {key: 'color', label: 'group/web'};
const first = await client.addConfigurationSetting({...id, value: 'red', tags: {a: 'b'}, contentType: 'text/plain'});
out.added = {value: first.value, tags: first.tags, type: first.contentType, label: first.label, locked: first.isReadOnly, dated: first.lastModified instanceof Date};
out.twice = await refused(() => client.addConfigurationSetting({...id, value: 'blue'}));
const second = await client.setConfigurationSetting({...first, value: 'blue'}, {onlyIfUnchanged: true});
out.set = second.value;
out.stale = await refused(() => client.setConfigurationSetting({...first, value: 'green'}, {onlyIfUnchanged: true}));
out.got = (await client.getConfigurationSetting(id)).value;
out.unchanged = (await client.getConfigurationSetting(second, {onlyIfChanged: true})).statusCode;
out.missing = await refused(() => client.getConfigurationSetting({key: 'none'}));
for (let i = 0; i < 120; i++) await client.setConfigurationSetting({key: 'many-' + i, label: 'group/web', value: String(i)});
let n = 0;
let pages = 0;
for await (const page of client.listConfigurationSettings({keyFilter: 'many-*', labelFilter: 'group/web'}).byPage()) {
	pages++;
	n += page.items.length;
}
out.listed = {n, pages};
await client.setReadOnly(id, true);
out.locked = await refused(() => client.deleteConfigurationSetting(id));
await client.setReadOnly(id, false);
out.deleted = (await client.deleteConfigurationSetting(id)).statusCode;
out.again = (await client.deleteConfigurationSetting(id)).statusCode;
process.stdout.write(JSON.stringify(out));
